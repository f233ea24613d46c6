"""Fixtures: postgres."""
