"""Scripts that run inside a peer's own environment. They import nothing of this package."""
