"""Weight formats: one module a format, one small interface."""
