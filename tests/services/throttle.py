"""Fixtures: proxies in front of a store that count, and misbehave as stores do."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache

import pytest

from tests.services.throttle_proxy import Counts, Faults, Throttle, end, listen

__all__ = ["Counts", "Faults", "StartThrottle", "Throttle", "running_throttle"]

StartThrottle = Callable[..., Throttle]


@pytest.fixture
def start_throttle() -> Iterator[StartThrottle]:
    """Start proxies: ``start_throttle("http://127.0.0.1:8333", Faults(max_concurrent=8))``."""
    with ExitStack() as stack:
        yield lambda *arguments: stack.enter_context(running_throttle(*arguments))


@contextmanager
def running_throttle(origin: str, faults: Faults | None = None) -> Iterator[Throttle]:
    """Run a proxy in a thread of its own; it ends with the block or by its ``close``."""
    proxy = Throttle(origin, faults or Faults())
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="throttle")
    thread.start()
    listening = asyncio.run_coroutine_threadsafe(listen(proxy), loop)

    @cache
    def close() -> None:
        asyncio.run_coroutine_threadsafe(end(listening.result()), loop).result(timeout=10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    proxy.close = close
    try:
        listening.result(timeout=10)
        yield proxy
    finally:
        close()
