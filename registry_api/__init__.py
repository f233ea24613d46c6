"""The service: FastAPI over Postgres over an object store.

Read ``db/tables.py`` first. Every verb has a folder with ``api.py`` (parse and
answer) over ``service.py`` (decide) over ``queries.py`` (SQL).
"""
