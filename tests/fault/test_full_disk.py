"""File systems that are really full: a small one in memory, which needs the right to mount it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from keystate import admin
from pyspark.sql import SparkSession

from tests.fault import batch_files
from tests.fault import full_disk_query as query
from tests.fault.drivers import Driver, committed

MB = 1 << 20


class Disk:
    """A small file system; `fill` leaves only so many bytes, `free` gives back the rest."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def left(self) -> int:
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_frsize

    def fill(self, left: int) -> None:
        with (self.folder / "filler").open("wb") as filler:
            filler.write(bytes(self.left - left))
        assert 0 < self.left <= left + MB

    def free(self) -> None:
        (self.folder / "filler").unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[str, int], Disk]]:
    """Makes small file systems, of a name and a size in MB."""
    mounted: list[Path] = []

    def make(name: str, size: int) -> Disk:
        folder = tmp_path / name
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}m", "tmpfs", str(folder)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            pytest.skip("there is no mount command")
        if done.returncode != 0:
            pytest.skip(f"can't mount a small file system: {done.stderr.strip()}")
        mounted.append(folder)
        return Disk(folder)

    yield make
    for folder in mounted:
        # What was just killed can keep it for a moment.
        for _ in range(100):
            if subprocess.run(["umount", str(folder)], check=False).returncode == 0:
                break
            time.sleep(0.1)
        assert not folder.is_mount(), f"{folder} is left mounted"


class Runs:
    """Tells a driver what to run."""

    def __init__(self, driver: Driver, folder: Path) -> None:
        self._driver, self._folder, self._number = driver, folder, 0

    def __call__(self, folder: Path, checkpoint: Path, backend: str) -> str:
        """Runs the query to its end; returns its error, if any."""
        what = {"folder": str(folder), "checkpoint": str(checkpoint), "backend": backend}
        (self._folder / "told").write_text(json.dumps(what))
        (self._folder / "told").rename(self._folder / f"{self._number}.run")
        done = self._folder / f"{self._number}.done"
        self._driver.wait_for(done.exists, 120)
        self._number += 1
        return done.read_text()


@pytest.mark.turns
def test_full_disks(spark: SparkSession, disk: Callable[[str, int], Disk], tmp_path: Path) -> None:
    """The executor's, with either backend, and the checkpoint's: a clear error, and it goes on."""
    local, remote = disk("local", 160), disk("remote", 64)
    with Driver("full_disk_query.py", tmp_path / "log", tmp_path, local.folder) as driver:
        run = Runs(driver, tmp_path)

        folder = tmp_path / "rocksdb"
        checkpoint = folder / "checkpoint"
        query.feed(folder, 0)
        assert run(folder, checkpoint, "rocksdb") == ""
        query.feed(folder, *range(1, 9))
        local.fill(4 * MB)
        error = run(folder, checkpoint, "rocksdb")
        assert is_local(error, local), error
        done = committed(folder)
        assert 1 <= done < 9, "the disk was full too soon, or never"
        assert admin.verify(str(checkpoint)) == []
        local.free()
        assert run(folder, checkpoint, "rocksdb") == ""
        assert batch_files.emitted(folder) == query.expected(9)

        # The heap backend takes a local copy of each of RocksDB's files that it reads.
        query.feed(folder, 9)
        local.fill(MB // 4)
        error = run(folder, checkpoint, "hashmap")
        assert is_local(error, local), error
        assert committed(folder) == 9
        local.free()
        assert run(folder, checkpoint, "hashmap") == ""
        assert batch_files.emitted(folder) == query.expected(10)
        assert admin.verify(str(checkpoint)) == []

        for backend in ("hashmap", "rocksdb") if os.environ.get("SLOW") else ("rocksdb",):
            folder, checkpoint = tmp_path / f"{backend} full", remote.folder / backend
            query.feed(folder, 0)
            assert run(folder, checkpoint, backend) == ""
            query.feed(folder, *range(1, 6))
            remote.fill(2 * MB)
            error = run(folder, checkpoint, backend)
            assert "No space left on device" in error, error
            remote.free()
            (folder / "checkpoint").symlink_to(checkpoint)
            assert 1 <= committed(folder) < 6
            assert admin.verify(str(checkpoint)) == []
            left = [path.name for path in checkpoint.rglob("*.tmp")]
            assert left == [], "half a file is left"
            assert run(folder, checkpoint, backend) == ""
            assert batch_files.emitted(folder) == query.expected(6)
            assert admin.verify(str(checkpoint)) == []


def is_local(error: str, disk: Disk) -> bool:
    """Whether it is of Keystate and names the file."""
    return "KEYSTATE_LOCAL_STORAGE" in error and str(disk.folder) in error
