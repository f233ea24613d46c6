"""Fixtures for every test live in tests/services, one module a real part."""

pytest_plugins = [
    "tests.services.postgres",
    "tests.services.seaweedfs",
    "tests.services.nginx",
    "tests.services.throttle",
    "tests.services.real_files",
    "tests.services.registry",
    "tests.services.envoy",
    "tests.services.served",
]
