"""Fixtures: real_files."""
