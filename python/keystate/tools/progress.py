"""How far long work is, in a terminal."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from keystate._jvm.local import LocalReader

_SECONDS = 0.5


@contextmanager
def progress(session: Any, what: str) -> Iterator[None]:
    """Shows how far a reader's work is, on the standard error if that is a terminal."""
    if not (isinstance(session, LocalReader) and sys.stderr.isatty()):
        yield
        return
    ended = threading.Event()

    def show() -> None:
        while not ended.wait(_SECONDS):
            done, _, total = session.bridge.progress().partition("/")
            if int(total):
                bar = ("#" * (30 * int(done) // int(total))).ljust(30)
                print(f"\r{what} [{bar}] {done} of {total}", end="", file=sys.stderr, flush=True)

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
