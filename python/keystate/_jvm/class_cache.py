"""An archive of the classes that a JVM loads, so that the next JVM starts several times as fast.

It is what Java calls an application class-data sharing archive. The JVM itself checks that it is of
its own version and of these jars, and else goes without it, and says nothing. So the archive's name
is another one for each Java, and for each state of the jars: no command stays slow.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_KEPT_SECONDS = 30 * 24 * 3600


def _folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "keystate")


def _delete_unused(folder: Path) -> None:
    """Deletes archives that nobody has used for long: of jars and Javas of before."""
    for archive in folder.glob("classes-*.jsa"):
        with suppress(OSError):
            if archive.stat().st_mtime < time.time() - _KEPT_SECONDS:
                archive.unlink()


@contextmanager
def class_cache(*made_of: str) -> Iterator[list[str]]:
    """Gives the JVM's options; within it the JVM runs and ends.

    The first time it makes the archive, when the JVM ends; but not after an error, for then many
    classes may not have been loaded. It then deletes those that were not used for 30 days. Where
    the user's cache folder can't be written, it does nothing.

    Args:
        made_of: the files and folders that the JVM's classes are from, and which Java it is.
    """
    times = [str(os.stat(file).st_mtime_ns) for file in made_of if os.path.exists(file)]
    name = hashlib.sha256("\0".join([*made_of, *times]).encode()).hexdigest()[:16]
    folder = None
    try:
        archive = _folder() / f"classes-{name}.jsa"
        if not archive.exists():
            archive.parent.mkdir(parents=True, exist_ok=True)
            folder = tempfile.mkdtemp(dir=archive.parent)
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        yield []
        return
    # Messages about archives would be in the way of the port, which is read from the output.
    if folder is None:
        with suppress(OSError):
            os.utime(archive)  # its time says when it was last used
        yield [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:disable"]
        return
    made = Path(folder, archive.name)
    try:
        yield [f"-XX:ArchiveClassesAtExit={made}", "-Xlog:disable"]
        with suppress(OSError):
            made.replace(archive)
        _delete_unused(archive.parent)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
