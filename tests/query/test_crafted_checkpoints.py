"""What somebody who can write into a checkpoint can make a query or a tool do: fail, by name."""

from __future__ import annotations

import base64
import json
import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import keystate
import pytest
from keystate import (
    CheckpointError,
    KeyedProcessFunction,
    ListCheckpointed,
    ProcessFunction,
    ValueStateDescriptor,
    admin,
)
from keystate._jvm.session import FORMAT_KEY
from keystate._worker.pickles import plain_data
from pyspark.errors import StreamingQueryException

from examples.counter_source import CounterSource

ALLOW = "spark.keystate.pickle.allow"


def crc32c(data: bytes) -> int:
    """As all of Keystate's files have it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def put(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def craft_version(path: Path, change: Callable[[dict[str, Any], bytes], bytes]) -> None:
    """Changes the manifest and the inline runs of a version file, and puts its checksums right."""
    data = path.read_bytes()
    length = struct.unpack(">i", data[12:16])[0]
    manifest = json.loads(data[16 : 16 + length])
    inline = change(manifest, data[16 + length : -4])
    at = 0
    for run in manifest["runs"]:
        if "path" not in run:
            run["crc32c"] = crc32c(inline[at : at + run["bytes"]])
            at += run["bytes"]
    text = json.dumps(manifest).encode()
    data = data[:12] + struct.pack(">i", len(text)) + text + inline
    put(path, data + struct.pack(">I", crc32c(data)))


class Sum(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.total.update(self.total.value() + row.x)
        yield row.key, self.total.value()


def build(df: Any) -> Any:
    return keystate.keyed(df, "key").process(Sum(), "key string, total long")


@pytest.fixture(params=["1", "2"])
def fed(request: Any, stream: Callable[[str], Any], settings: Callable[..., None]) -> Any:
    settings(**{FORMAT_KEY: request.param})
    made = stream("key string, x long")
    made.feed([("a", 1), ("b", 2)], [("a", 10)])
    made.run(build)
    return made


def complaints(spark: Any, fed: Any, target: Path) -> list[str]:
    """What the tools and a restart say; none of them may go on."""
    checkpoint = str(fed.checkpoint)
    calls: list[Callable[[], Any]] = [
        lambda: admin.savepoint(checkpoint, str(target)),
        lambda: admin.inspect(checkpoint),
        lambda: admin.diff(checkpoint, checkpoint),
        lambda: admin.rescale(checkpoint, 3),
        lambda: fed.run(build),
    ]
    said = admin.verify(checkpoint)
    fed.feed([("a", 100), ("b", 100)])
    for call in calls:
        with pytest.raises((CheckpointError, StreamingQueryException)) as raised:
            call()
        said.append(str(raised.value))
    return said


@pytest.mark.parametrize("kind", ["relative", "absolute", "scheme"])
def test_paths_of_run_files(spark: Any, fed: Any, tmp_path: Path, kind: str) -> None:
    prepared = fed.checkpoint.parent / "victim/file"
    victim = tmp_path / "elsewhere/victim/file"
    for path, text in ((prepared, "evil"), (victim, "good")):
        path.parent.mkdir(parents=True)
        path.write_text(text)
    path = {
        "relative": "../../../victim/file",
        "absolute": str(prepared),
        "scheme": prepared.as_uri(),
    }[kind]

    def craft(manifest: dict[str, Any], inline: bytes) -> bytes:
        run = {"path": path, "entries": 1, "bytes": 4, "crc32c": crc32c(b"evil"), "version": 1}
        manifest["runs"].insert(0, {**run, "groups": manifest["groups"]})
        return inline

    for file in sorted((fed.checkpoint / "state/0").glob("[01]/2*.keystate")):
        craft_version(file, craft)
    target = victim.parent.parent / "savepoint"
    said = complaints(spark, fed, target)
    assert len(said) == 7, "verify tells both partitions"
    for message in said:
        assert "KEYSTATE_CORRUPT_FILE" in message and ".keystate" in message and path in message
    assert victim.read_text() == "good" and not target.exists()
    assert sorted(p.name for p in victim.parent.parent.iterdir()) == ["victim"]


def test_ids_in_the_commit_log(spark: Any, fed: Any, tmp_path: Path) -> None:
    log = fed.checkpoint / "commits/1"
    version, text = log.read_text().split("\n")
    commit = json.loads(text)
    if "stateUniqueIds" not in commit:
        pytest.skip("checkpoint format v1 has no ids")
    commit["stateUniqueIds"]["0"][0][0] = "x/../../../../victim"
    put(log, f"{version}\n{json.dumps(commit)}".encode())
    for message in complaints(spark, fed, tmp_path / "savepoint"):
        assert "KEYSTATE_CORRUPT_FILE" in message and "commits/1" in message


@pytest.mark.parametrize("file", ["/etc/passwd", "/x/0/_stateSchema/../../etc", "", None])
def test_schema_files_in_operator_metadata(
    spark: Any, fed: Any, tmp_path: Path, file: str | None
) -> None:
    path = fed.checkpoint / "state/0/_metadata/v2/0"
    version, text = path.read_text().split("\n")
    metadata = json.loads(text)
    metadata["stateStoreInfo"][0]["stateSchemaFilePaths"] = [file]
    put(path, f"{version}\n{json.dumps(metadata)}".encode())
    with pytest.raises(CheckpointError, match=r"KEYSTATE_CORRUPT_FILE.*state/0/_metadata"):
        admin.savepoint(str(fed.checkpoint), str(tmp_path / "savepoint"))
    assert not (tmp_path / "savepoint").exists()
    fed.feed([("a", 100)])
    with pytest.raises(StreamingQueryException, match=r"state/0/_metadata"):
        fed.run(build)


@pytest.mark.parametrize("content", [b"", b"{", b'{"format":1,"maxParallelism":64,"crc32c":5}'])
def test_damaged_operator_record(spark: Any, fed: Any, tmp_path: Path, content: bytes) -> None:
    put(fed.checkpoint / "state/0/_keystate/operator", content)
    said = complaints(spark, fed, tmp_path / "savepoint")
    assert len(said) == 6
    for message in said:
        assert "KEYSTATE_CORRUPT_FILE" in message and "state/0/_keystate/operator" in message


def test_records_have_a_checksum(spark: Any, fed: Any, tmp_path: Path) -> None:
    path = fed.checkpoint / "state/0/_keystate/operator"
    record = json.loads(path.read_text())
    assert record.pop("crc32c") == crc32c(b'{"format":1,"maxParallelism":128}')
    put(path, json.dumps(record).encode())
    for message in complaints(spark, fed, tmp_path / "savepoint"):
        assert "KEYSTATE_CORRUPT_FILE" in message and "state/0/_keystate/operator" in message


def test_a_lost_record_of_operators(spark: Any, fed: Any, tmp_path: Path) -> None:
    (fed.checkpoint / "_keystate/operators").unlink()
    for message in complaints(spark, fed, tmp_path / "savepoint"):
        assert "KEYSTATE_MISSING_FILE" in message and "_keystate/operators" in message


@pytest.mark.parametrize("file", ["_keystate/operators", "state/0/_keystate/operator"])
def test_another_format(spark: Any, fed: Any, tmp_path: Path, file: str) -> None:
    path = fed.checkpoint / file
    put(path, path.read_bytes().replace(b'"format":1', b'"format":2'))
    for message in complaints(spark, fed, tmp_path / "savepoint"):
        assert "KEYSTATE_UNSUPPORTED_FORMAT" in message and f"{file} has format 2" in message


@pytest.mark.parametrize("log", ["commits", "offsets"])
@pytest.mark.parametrize("content", [b"", b"v1\n{", b"v1\nnull", b"v2\n{}\n"])
def test_damaged_logs_of_spark(spark: Any, fed: Any, log: str, content: bytes) -> None:
    """Where a tool needs what is not there; it may do without an offset."""
    put(fed.checkpoint / log / "1", content)
    for call in (admin.inspect, lambda path: admin.savepoint(path, f"{path}-copy")):
        try:
            call(str(fed.checkpoint))
        except CheckpointError as e:
            if log == "commits" and content == b"v2\n{}\n":
                # An entry, but of checkpoint format v1.
                assert "KEYSTATE_MISSING_VERSION" in str(e)
            else:
                assert "KEYSTATE_CORRUPT_FILE" in str(e) and f"{log}/1" in str(e)
        else:
            assert content not in (b"", b"v1\n{")


class Touch:
    """A pickle that makes a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.path}",)


def test_pickle_in_a_source_segment(spark: Any, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"

    def run(until: int) -> None:
        df = keystate.source(spark, CounterSource(until), "n long")
        df.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).trigger(
            availableNow=True
        ).start().awaitTermination()

    run(10)
    path = max((checkpoint / "sources/0").glob("*.source"))
    data = path.read_bytes()
    length = struct.unpack(">i", data[12:16])[0]
    header = json.loads(data[16 : 16 + length])
    crafted = base64.b64encode(pickle.dumps(Touch(tmp_path / "victim"))).decode()
    assert header["states"][0]["$list"]
    header["states"][0]["$list"] = [crafted]
    text = json.dumps(header).encode()
    (chunks,) = struct.unpack(">i", data[16 + length : 20 + length])
    end = 20 + length + 8 * chunks
    head = data[:12] + struct.pack(">i", len(text)) + text + data[16 + length : end]
    put(path, head + struct.pack(">I", crc32c(head)) + data[end + 4 :])
    with pytest.raises(StreamingQueryException, match=r"KEYSTATE_PICKLE_REFUSED.*system"):
        run(20)
    assert not (tmp_path / "victim").exists()


class Remembers(ProcessFunction, ListCheckpointed):
    """Its list is one element; with room for another pickle in the file."""

    def __init__(self, make: Any = str) -> None:
        self.make = make
        self.restored: list[Any] = []

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[Any]:
        return [self.make("x" * 300)]

    def restore_state(self, state: list[Any]) -> None:
        self.restored = state

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield str(type(self.restored[0]).__name__ if self.restored else None)


def remembered(fed: Any, make: Any = str) -> list[str]:
    fed.feed([(1,)])
    return [
        row[0]
        for row in fed.run(lambda df: keystate.stream(df).process(Remembers(make), "t string"))
    ]


def test_pickle_in_operator_state(
    spark: Any, stream: Callable[[str], Any], settings: Callable[..., None], tmp_path: Path
) -> None:
    settings(**{"spark.sql.shuffle.partitions": "1"})
    fed = stream("x long")
    assert remembered(fed) == ["None"]

    def craft(manifest: dict[str, Any], inline: bytes) -> bytes:
        data = plain_data.encode("x" * 300)
        good = base64.b64encode(data)
        evil = base64.b64encode(pickle.dumps(Touch(tmp_path / "victim")).ljust(len(data), b"\0"))
        assert inline.count(good) == 1 and len(good) == len(evil)
        return inline.replace(good, evil)

    (version,) = (fed.checkpoint / "state/0/0").glob("1*.keystate")
    good = version.read_bytes()
    craft_version(version, craft)
    with pytest.raises(StreamingQueryException, match=r"KEYSTATE_PICKLE_REFUSED.*system"):
        remembered(fed)
    assert not (tmp_path / "victim").exists()
    put(version, good)
    fed.run(lambda df: keystate.stream(df).process(Remembers(), "t string"))


def test_classes_in_operator_state(
    spark: Any, stream: Callable[[str], Any], settings: Callable[..., None]
) -> None:
    settings(**{"spark.sql.shuffle.partitions": "1"})
    fed = stream("x long")
    with pytest.raises(
        StreamingQueryException, match=r"state .\$list.*PurePosixPath, which a restart.*allow"
    ):
        remembered(fed, PurePosixPath)
    settings(**{ALLOW: f"some.Other, {PurePosixPath.__module__}.PurePosixPath"})
    assert fed.run(lambda df: keystate.stream(df).process(Remembers(PurePosixPath), "t string"))
    assert remembered(fed, PurePosixPath) == ["PurePosixPath"]
