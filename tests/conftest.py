"""Fixtures for every test live in tests/services, one module a real part."""

import signal

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


def pytest_configure() -> None:
    """Take Ctrl-C again where a shell put the suite into the background: children inherit it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
