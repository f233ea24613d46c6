"""The version of this package, which requests name as their user agent."""

VERSION = "0.1.0"
"""As in ``pyproject.toml``: reading it from the installed package's metadata takes 10 ms."""
