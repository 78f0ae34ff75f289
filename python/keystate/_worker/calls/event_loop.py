"""An event loop of Keystate's own, for a function that awaits."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

#: How long tasks that are cancelled may take to end.
_CANCEL_SECONDS = 10.0


class EventLoop:
    """Runs coroutines to their end, one after the other; tasks of theirs go on with the next one.

    Args:
        threads: the most that ``asyncio.to_thread`` uses at a time.
    """

    def __init__(self, threads: int = 1) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(threads))

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Runs it, and returns what it returns."""
        if not _is_in_a_loop():
            return self._loop.run_until_complete(coroutine)
        # A thread runs one loop, and this one runs somebody else's: a notebook's, for instance.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(self._loop.run_until_complete, coroutine).result()

    def finish(self, returned: Any) -> None:
        """Awaits what a call returned, if that is to be awaited."""
        if hasattr(returned, "__await__"):
            self.run(_awaited(returned))

    def close(self) -> None:
        """Cancels what is still running."""
        left = asyncio.all_tasks(self._loop)
        if left:
            self.run(cancel(list(left)))
        self.run(self._loop.shutdown_asyncgens())
        self._loop.close()


def _is_in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _awaited(awaitable: Any) -> Any:
    return await awaitable


async def cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancels tasks and waits for them, but not for ever."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_CANCEL_SECONDS)
    for task in tasks:
        if task.done() and not task.cancelled():
            task.exception()  # or asyncio says that nobody looked
