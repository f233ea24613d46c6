"""Lineage: which versions a version was made from, and which were made from it."""
