"""Savepoints by reference in an object store, of a query whose files are deleted soon.

python shared_savepoint_query.py FOLDER FORMAT BACKEND EVERY [STORE]

It makes savepoints, goes on with them, and deletes them and the original in turn. Then it makes and
deletes savepoints as a process that is dead from its nth request on, for each EVERYth n. STORE is
what the URLs in another store begin with, FOLDER/settings.json has what the session needs for it;
there no process dies. What was found is in FOLDER/found.json.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import keystate
import pyarrow as pa
from keystate import KeyedProcessFunction, ValueStateDescriptor, admin
from keystate._jvm.session import FORMAT_KEY
from pyspark.sql import SparkSession

from tests.fault import batch_files, faults, sessions
from tests.fault.sessions import error

KEYS = 30
#: So long that what a batch changes is a file, which is merged and deleted soon.
TEXT = "x" * 5000
HOUR = 3600
OBJECTS = "objects://"
REFERENCE = r"/state/.*\.ref"


class Counts(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.state = ctx.get_state(ValueStateDescriptor("count", "count long, text string"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        count = (self.state.value() or (0, ""))[0] + 1
        self.state.update((count, f"{row.key} {count} {TEXT}"))
        yield row.key, count


class Checkpoints:
    """A query's input, and checkpoints in a store that go on with it.

    Args:
        folder: where the input is.
        url: what the checkpoints' URLs begin with.
    """

    def __init__(self, spark: SparkSession, folder: Path, url: str) -> None:
        self.spark, self.folder, self.url = spark, folder, url
        self._fed = 0
        self._path: Any = spark._jvm.org.apache.hadoop.fs.Path
        self._store = self._path(url).getFileSystem(spark._jsc.hadoopConfiguration())

    def feed(self, files: int = 1) -> None:
        for _ in range(files):
            batch_files.write(
                self.folder / "input", self._fed, pa.table({"key": list(range(KEYS))})
            )
            self._fed += 1

    def place(self, name: str) -> str:
        return f"{self.url}/{name}"

    def exists(self, name: str) -> bool:
        return self._store.exists(self._path(self.place(name)))

    def remove(self, name: str) -> None:
        """As somebody does who does not know of Keystate."""
        assert self._store.delete(self._path(self.place(name)), True)

    def files(self, name: str, pattern: str) -> list[str]:
        """The paths in a checkpoint that match a regular expression to their end."""
        place = self.place(name)
        if place.startswith(OBJECTS):  # these are local files, whose statuses name no URL
            paths = [str(path) for path in Path(place.removeprefix(OBJECTS)).rglob("*")]
        else:
            paths = []
            listed = self._store.listFiles(self._path(place), True) if self.exists(name) else None
            while listed and listed.hasNext():
                paths.append(listed.next().getPath().toString())
        return [path for path in paths if re.search(f"{pattern}$", path)]

    def run(self, name: str) -> None:
        """Takes each input file that is new, in a batch of its own."""
        rows = (
            self.spark.readStream.schema("key long")
            .option("maxFilesPerTrigger", "1")
            .parquet(str(self.folder / "input"))
        )
        query = (
            keystate.keyed(rows, "key")
            .process(Counts(), "key long, count long")
            .writeStream.option("checkpointLocation", self.place(name))
            .foreachBatch(lambda df, _: df.collect() and None)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def counts(self, name: str) -> list[int]:
        """What all keys have, each number once; fails where a file is lost or damaged."""
        for _ in range(5):
            # What clean-up deletes just now, of a query that has ended, looks lost.
            problems = admin.verify(self.place(name))
            if problems == []:
                break
            time.sleep(0.5)
        assert problems == [], problems
        state = admin.read_state(self.spark, self.place(name), state="count")
        found = [row[0] for row in state.select("value.count").collect()]
        assert len(found) == KEYS, found
        return sorted(set(found))

    def references(self, name: str) -> int:
        return len(self.files(name, REFERENCE))

    def forget(self, name: str) -> None:
        """Makes references so old that nobody can be at work with them. Only of local files."""
        for path in self.files(name, REFERENCE):
            os.utime(path, (time.time() - HOUR, time.time() - HOUR))


def works(at: Checkpoints) -> dict[str, Any]:
    found: dict[str, Any] = {}
    at.feed(3)
    at.run("original")
    found["batch"] = admin.savepoint(at.place("original"), at.place("first"), by_reference=True)
    found["files"] = [
        len(at.files(name, r"/state/0/\d+/[^/]*\.(lz4|sst)")) for name in ("first", "original")
    ]
    found["old"] = error(
        lambda: admin.savepoint(
            at.place("original"), at.place("never"), version=1, by_reference=True
        )
    )
    found["never"] = at.exists("never")
    (listed,) = admin.savepoints(at.place("original"))
    found["listed"] = [listed["kind"], listed["batch"], listed["state"], listed["savepoint"]]
    found["shared"] = [listed["shared_bytes"], listed["bytes"]]
    # One that is deleted by other means.
    admin.savepoint(at.place("original"), at.place("gone"), by_reference=True)
    at.remove("gone")
    before = admin.savepoints(at.place("original"))[-1]["state"]
    admin.delete(at.place("gone"), original=at.place("original"))
    after = admin.savepoints(at.place("original"))[1:]
    found["missing"] = [before, after]
    # The original goes on, until nothing of it is left that it had then.
    at.feed(6)
    at.run("original")
    found["first"], found["original"] = at.counts("first"), at.counts("original")
    # A savepoint of a savepoint, and a whole copy of one.
    admin.savepoint(at.place("first"), at.place("second"), by_reference=True)
    admin.restore(at.place("second"), at.place("restored"))
    found["kept"] = admin.delete(at.place("original"))
    found["deleted"] = error(lambda: at.run("original"))
    found["after"] = [at.counts(name) for name in ("first", "second", "restored")]
    found["kept of first"] = admin.delete(at.place("first"))
    at.run("second")
    at.run("restored")
    found["gone on"] = [at.counts(name) for name in ("second", "restored")]
    found["kept of second"] = admin.delete(at.place("second"))
    # With the last one that needed them, what was kept of the others goes.
    found["left"] = [at.exists(name) for name in ("original", "first", "second")]
    found["restored"] = at.counts("restored")
    return found


def killed(at: Checkpoints, plan: Path, every: int) -> dict[str, Any]:
    """How often a savepoint was there, and was not, after its maker or deleter had died."""
    at.feed(2)
    at.run("original")
    admin.savepoint(at.place("original"), at.place("kept"), by_reference=True)
    found = {"made": 0, "not made": 0, "deletions": 0}

    def dies(operation: Any, nth: int, pattern: str) -> bool:
        """Whether it died: once there are fewer requests than nth it does not."""
        fault = plan / f"{time.monotonic_ns()}.fault"
        fault.write_text(f"any {nth} dead {pattern}")
        failed = error(operation)
        fault.unlink()
        happened = fault.with_suffix(".happened").exists()
        assert not failed or happened, failed
        return happened

    for nth in itertools.count(1, every):
        name = f"s{nth}"
        died = dies(
            lambda name=name: admin.savepoint(
                at.place("original"), at.place(name), by_reference=True
            ),
            nth,
            f"/(original|{name})(/|$)",
        )
        before = at.counts("original")
        at.feed(4)
        at.run("original")  # and cleans up
        if error(lambda name=name: admin.inspect(at.place(name))) == "":
            assert at.counts(name) == before, name
            found["made"] += 1
        else:
            found["not made"] += 1
        assert at.counts("kept") == [2]
        # Its deletion dies likewise, again and again.
        deleted = False
        for step in itertools.count(1 + nth % every, every):
            if not at.exists(name):
                break
            found["deletions"] += 1
            deleted = not dies(
                lambda name=name: admin.delete(at.place(name)),
                step,
                f"/(original|{name})(/|$)",
            )
            if deleted:
                break
            if "UNFINISHED" not in error(lambda name=name: admin.inspect(at.place(name))):
                assert not at.exists(name) or at.counts(name) == before, name
        assert not at.exists(name), name
        at.forget("original")
        listed = [savepoint["savepoint"] for savepoint in admin.savepoints(at.place("original"))]
        assert [Path(place).name for place in listed] == ["kept"], listed
        # Two stores: those of the savepoint that is kept.
        assert at.references("original") == 2, name
        if not died:
            break
    admin.delete(at.place("original"))
    assert at.counts("kept") == [2]
    admin.delete(at.place("kept"))
    found["left"] = [at.exists(name) for name in ("original", "kept")]
    return found


def main() -> None:
    place, checkpoint_format, backend, every, *store = sys.argv[1:]
    folder = Path(place)
    settings = {
        "spark.hadoop.fs.objects.impl": "keystate.faults.ObjectFileSystem",
        "spark.hadoop.fs.objects.impl.disable.cache": "true",
        FORMAT_KEY: checkpoint_format,
        "spark.keystate.backend": backend,
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.stateStore.maintenanceInterval": "100ms",
        "spark.sql.streaming.fileSource.log.compactInterval": "2",
        "spark.sql.streaming.fileSource.log.cleanupDelay": "0",
        "spark.sql.streaming.ratioExtraSpaceAllowedInCheckpoint": "0",
    }
    builder = sessions.builder("local[2]", 2).config(map=settings)
    if store:
        builder = builder.config(map=json.loads((folder / "settings.json").read_text()))
    else:
        builder = faults.configure(builder, folder / "plan")
    spark = keystate.configure(builder).getOrCreate()

    def checkpoints(name: str) -> Checkpoints:
        url = store[0] if store else f"{OBJECTS}{folder}"
        return Checkpoints(spark, folder / name, f"{url}/{name}")

    found = {"works": works(checkpoints("works"))}
    if not store:
        found["killed"] = killed(checkpoints("killed"), folder / "plan", int(every))
    (folder / "found.json").write_text(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main()
