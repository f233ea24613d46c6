"""The service: FastAPI over Postgres over an object store.

Read ``db/tables.py`` first. Every verb has a folder with ``api.py`` (parse and
answer) over ``service.py`` (decide) over ``queries.py`` (SQL).
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("ai-model")
except PackageNotFoundError:  # run from a checkout that is not installed
    __version__ = "0+unknown"
