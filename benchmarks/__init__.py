"""Every figure the project states, measured beside its peers: ``python -m benchmarks``."""
