"""Alembic migrations of the registry's database. Run by ``registry_api.db.migrate``."""
