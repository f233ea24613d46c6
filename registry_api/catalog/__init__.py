"""Catalog: models, versions, aliases, tokens."""
