"""Fixtures: registry."""
