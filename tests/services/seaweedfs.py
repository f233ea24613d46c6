"""Fixtures: seaweedfs."""
