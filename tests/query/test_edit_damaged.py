"""Of a damaged checkpoint there is no changed copy: the error names the file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import CheckpointError, KeyedProcessFunction, ValueStateDescriptor, admin
from keystate._jvm.session import FORMAT_KEY
from pyspark.sql import functions as F

from tests.drawn import drawn

KEYS = 4000
EDITED, COPIED = 0, 1


class Keep(KeyedProcessFunction):
    """Keeps a text that does not compress, so that there are run files."""

    def open(self, ctx: Any) -> None:
        self.text = ctx.get_state(ValueStateDescriptor("text", "string"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.text.update(hashlib.sha512(str(row.key).encode()).hexdigest())
        yield (row.key,)


def build(df: Any) -> Any:
    for _ in (COPIED, EDITED):
        df = keystate.keyed(df, "key").process(Keep(), "key long")
    return df


def write(checkpoint: Path, target: Path) -> None:
    editor = admin.edit(str(checkpoint))
    editor.add(
        ValueStateDescriptor("length", "int"),
        editor.read("text", operator=EDITED).select("key", F.length("value").alias("value")),
        operator=EDITED,
    )
    editor.write(str(target))


def damages(good: bytes) -> Iterator[tuple[str, bytes]]:
    """Flips of one bit, and cuts."""
    for at in (0, len(good) // 2, len(good) - 1):
        yield f"flipped at {at}", good[:at] + bytes([good[at] ^ 4]) + good[at + 1 :]
    for at in (0, len(good) // 2, len(good) - 1):
        yield f"cut off at {at}", good[:at]


def files(operator: Path) -> dict[str, Path]:
    """Of each kind of file the one that the newest version has in a partition."""
    versions = operator.glob("1/*.keystate")
    runs = [path for path in operator.glob("1/*") if path.suffix in (".lz4", ".sst")]
    return {
        "version file": max(versions, key=lambda path: int(path.name.split("_")[0].split(".")[0])),
        "run": max(runs, key=lambda path: path.stat().st_size),
        "record": operator / "_keystate/operator",
    }


@pytest.mark.parametrize("operator", [EDITED, COPIED], ids=["edited", "copied"])
@pytest.mark.parametrize(
    ("backend", "checkpoint_format"),
    drawn("damaged and edited", [("hashmap", "1"), ("rocksdb", "2")], 1),
    ids=lambda value: value,
)
def test_damaged_files(
    backend: str,
    checkpoint_format: str,
    operator: int,
    spark: Any,
    stream: Callable[..., Any],
    settings: Callable[..., None],
    tmp_path: Path,
) -> None:
    settings(**{"spark.keystate.backend": backend, FORMAT_KEY: checkpoint_format})
    fed = stream("key long")
    fed.feed([(i,) for i in range(KEYS)])
    fed.run(build)
    target = tmp_path / "new" / "target"
    target.parent.mkdir()
    for kind, file in files(fed.checkpoint / f"state/{operator}").items():
        good = file.read_bytes()
        for how, bad in damages(good):
            file.write_bytes(bad)
            with pytest.raises(CheckpointError) as error:
                write(fed.checkpoint, target)
            assert error.value.code == "KEYSTATE_CORRUPT_FILE", (kind, how, error.value)
            where = f"_keystate/{file.name}" if kind == "record" else f"1/{file.name}"
            assert where in str(error.value), (kind, how, error.value)
            assert not list(target.parent.iterdir()), (kind, how)
        file.write_bytes(good)
    write(fed.checkpoint, target)
    assert admin.verify(str(target)) == []
