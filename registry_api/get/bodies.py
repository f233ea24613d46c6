"""Bodies that many ask for at once, kept in memory up to a limit. Knows no HTTP."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable

Made = tuple[bytes, bool]
"""A body, and whether it is right: only then it is kept."""


class Bodies:
    """The bodies that were asked for last. For one thread: the event loop's.

    Args:
        limit: bytes of all of them; what does not fit alone is not kept.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()
        self._making: dict[Hashable, asyncio.Task[Made]] = {}

    async def ask(self, key: Hashable, make: Callable[[], Coroutine[None, None, Made]]) -> bytes:
        """Return a body that is kept, else what ``make`` brings, once for all who ask meanwhile.

        Who goes away before it is there takes it from nobody else.

        Raises:
            Exception: what ``make`` raised; who asks next has it called again.
        """
        body = self.get(key)
        if body is not None:
            return body
        if key not in self._making:
            self._making[key] = task = asyncio.create_task(make())
            task.add_done_callback(lambda done: self._end(key, done))
        made, _ = await asyncio.shield(self._making[key])
        return made

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

    def _end(self, key: Hashable, done: "asyncio.Task[Made]") -> None:
        del self._making[key]
        if not done.cancelled() and done.exception() is None:
            body, is_right = done.result()
            if is_right:
                self.keep(key, body)
