"""Bodies that many ask for at once, kept in memory up to a limit. Knows no HTTP."""

from collections import OrderedDict
from collections.abc import Hashable


class Bodies:
    """The bodies that were asked for last. For one thread: the event loop's.

    Args:
        limit: bytes of all of them; what does not fit alone is not kept.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()

    def get(self, key: Hashable) -> bytes | None:
        """Return a body, ``None`` where it is not kept."""
        body = self._kept.get(key)
        if body is not None:
            self._kept.move_to_end(key)
        return body

    def keep(self, key: Hashable, body: bytes) -> None:
        """Keep a body, and let go of those asked for longest ago."""
        if len(body) > self._limit:
            return
        self._size += len(body) - len(self._kept.pop(key, b""))
        self._kept[key] = body
        while self._size > self._limit:
            self._size -= len(self._kept.popitem(last=False)[1])
