"""Archives of the classes that a JVM loads, so that the next JVM starts in half the time or less.

It is what Java calls an application class-data sharing archive. The JVM itself checks that it is of
its own version and of these jars, and else goes without it. So the archive's name is another one
for each Java, and for each state of the jars: nothing stays slow.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

from keystate._jvm.java import found_java, identity
from keystate.errors import ConfigurationError

#: Keeps back what a JVM says of its archive; all other messages are shown.
QUIET = "-Xlog:cds*=off"
_KEPT_SECONDS = 30 * 24 * 3600


@contextmanager
def class_cache(*made_of: str) -> Iterator[list[str]]:
    """Gives the JVM's options; within it the JVM runs and ends.

    The first time it makes the archive, when the JVM ends; but not after an error, for then many
    classes may not have been loaded. Where the user's cache folder can't be written, it does
    nothing.

    Args:
        made_of: the files and folders that the JVM's classes are from, and which Java it is.
    """
    with ExitStack() as stack:
        options = []
        with suppress(OSError, RuntimeError):  # RuntimeError: there is no home
            archive = _archive(*made_of)
            is_there = archive.exists()
            options = _use(archive) if is_there else [stack.enter_context(making(archive))]
            # Messages would be in the way of the port, which is read from the output.
            options.append("-Xlog:disable")
        yield options


def session_archive() -> Path | None:
    """Where the archive is or will be of the JVM that PySpark starts for a session.

    ``None``: there is no Java, or no home.
    """
    try:
        jars = os.path.join(_find_spark_home(), "jars")
        return _archive("session", jars, *identity(found_java()))
    except (ConfigurationError, OSError, RuntimeError):
        return None


def session_options() -> str:
    """By these a session's JVM uses its archive; empty as long as there is none."""
    # To know the Java's version may need a start of Java, so first see whether any archive exists.
    archive = session_archive() if any(_archives()) else None
    if archive is None or not archive.exists():
        return ""
    return shlex.join([*_use(archive), QUIET])


@contextmanager
def making(archive: Path) -> Iterator[str]:
    """Gives an option by which a JVM that runs and ends within it makes the archive.

    Archives that were not used for 30 days are deleted then.
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        made = Path(folder, archive.name)
        yield f"-XX:ArchiveClassesAtExit={made}"
        with suppress(OSError):
            made.replace(archive)
        _delete_unused()


def _archive(*made_of: str) -> Path:
    times = [str(os.stat(file).st_mtime_ns) for file in made_of if os.path.exists(file)]
    name = hashlib.sha256("\0".join([*made_of, *times]).encode()).hexdigest()[:16]
    return _folder() / f"classes-{name}.jsa"


def _folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "keystate")


def _archives() -> list[Path]:
    try:
        return list(_folder().glob("classes-*.jsa"))
    except (OSError, RuntimeError):
        return []


def _use(archive: Path) -> list[str]:
    with suppress(OSError):
        os.utime(archive)  # its time says when it was last used
    return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto"]


def _delete_unused() -> None:
    """Deletes archives that nobody has used for long: of jars and Javas of before."""
    for archive in _archives():
        with suppress(OSError):
            if archive.stat().st_mtime < time.time() - _KEPT_SECONDS:
                archive.unlink()
