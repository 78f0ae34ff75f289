"""One Spark session for all tests, and streams fed by hand."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import keystate
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from keystate._types.codec import struct_codec
from py4j.java_gateway import JavaClass, JavaPackage, JVMView
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import types as T

from tests import jvm_archive  # first of all, it makes the folder for temporary files
from tests.drawn import DRAW, drawn
from tests.real_time import MIN_DURATION

# Before a module of tests makes timestamps.
os.environ["TZ"] = os.environ.get("KEYSTATE_TEST_TZ", "UTC")
time.tzset()


#: How long what a query has in memory stays there for its next start.
KEEP_SECONDS = "spark.keystate.restart.keepSeconds"

#: The tests of these folders start programs in which Spark runs, or need Keystate's jar.
WITH_SPARK = {"clusters", "connect", "fault", "golden", "interop", "rescale", "stores"}

#: Set by `make test`: the longest tests take turns, and so do the parameters of those with Spark.
#: Who runs pytest gets what they name.
TURNS = "KEYSTATE_TURNS" in os.environ

#: Each format that a checkpoint has had is read in each run.
GOLDEN = "tests/golden/"


def pytest_report_header() -> str:
    return f"KEYSTATE_DRAW={DRAW}"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Not even imported by `make quick`."""
    left_out = "not spark" in config.option.markexpr and collection_path.name in WITH_SPARK
    return True if left_out else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests that need Spark. Few set the mark themselves: they start programs.

    The longest ones come first, so that no process is left alone with one of them at the end.
    """
    items.sort(key=lambda item: item.path.parent.name not in ("fault", "stores"))
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "spark" in fixtures or item.path.parent.name in WITH_SPARK:
            item.add_marker("spark")
    if not TURNS:
        return
    long = [item for item in items if item.get_closest_marker("turns")]
    take_turns("turns", [item for item in long if not is_skipped(item)], 3)
    with_spark = [item for item in items if item.get_closest_marker("spark") and item not in long]
    sets: dict[str, list[pytest.Item]] = {}
    for item in with_spark:
        sets.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for test, each in sets.items():
        if GOLDEN not in test:
            take_turns(test, each, 3)
    if not jvm_archive.ON_DEFAULT_SPARK:
        # The default Spark's environment runs all of them, and they start none.
        plain = [item for item in items if not item.get_closest_marker("spark")]
        take_turns("plain", plain, 3)


def is_skipped(item: pytest.Item) -> bool:
    return any(mark.args[0] for mark in item.iter_markers("skipif"))


def take_turns(what: str, items: list[pytest.Item], times: int) -> None:
    """Skips all but one of so many tests, others in each run; see tests/drawn.py."""
    now = set(drawn(what, items, -(-len(items) // times)))
    for item in items:
        if item not in now:
            item.add_marker(pytest.mark.skip(reason="not drawn for this run; set SLOW=1"))


def keep_names(kind: type) -> None:
    """Keeps the classes and packages that were looked up in the JVM.

    For each part of a name py4j looks for a class in all of Spark's jars, and again each time: that
    took a twentieth of the CPU time of queries.
    """
    look_up = kind.__getattr__

    def kept(self: Any, name: str) -> Any:
        found = look_up(self, name)
        # What is not there yet is a package to py4j too.
        if isinstance(found, JavaClass) or name.islower():
            self.__dict__[name] = found
        return found

    kind.__getattr__ = kept


keep_names(JVMView)
keep_names(JavaPackage)


@pytest.fixture(scope="session")
def spark(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[SparkSession]:
    """A local session with two cores; a task is tried twice.

    Its time zone is not that of the processes: what mixes them up is found. Tests of types can be
    run in another zone of the processes too, see test_zones.py.
    """
    # Workers import the functions of a test from its module.
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    builder = SparkSession.builder.master("local[2,2]").appName("keystate tests")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.sql.session.timeZone": "Europe/Berlin",
        # A start reads the checkpoint's files, unless a test wants it otherwise.
        KEEP_SECONDS: "0",
    }.items():
        builder = builder.config(key, value)
    builder = builder.config(*jvm_archive.DAEMON)
    builder = builder.config(map=jvm_archive.CODEGEN)
    session = started(keystate.configure(builder), pytestconfig)
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def started(builder: SparkSession.Builder, config: pytest.Config) -> SparkSession:
    """A JVM that ends before it has run anything is started again, and a warning has its words.

    A third of all tests would fail by it.
    """
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        capture: Any = config.pluginmanager.getplugin("capturemanager")
        said = "".join(capture.read_global_capture())
        warnings.warn(f"A JVM did not start. It said: {said}", stacklevel=1)
        return builder.getOrCreate()


@pytest.fixture(autouse=True)
def no_query_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test that leaves a query running."""
    yield
    if "spark" in request.fixturenames:
        session = request.getfixturevalue("spark")
        left = session.streams.active
        for query in left:
            query.stop()
        assert not left, f"left running: {[query.name for query in left]}"


@pytest.fixture
def settings(spark: SparkSession) -> Iterator[Callable[..., None]]:
    """Sets Spark settings for one test: ``settings(**{"spark.x": "y"})``."""
    before: dict[str, str | None] = {}

    def set_all(**values: str) -> None:
        for key, value in values.items():
            before.setdefault(key, spark.conf.get(key, None))
            spark.conf.set(key, value)

    yield set_all
    for key, value in before.items():
        if value is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, value)


@pytest.fixture
def keeps_memory(settings: Callable[..., None]) -> None:
    """A start goes on with what the last run has in memory, as it does unless told otherwise."""
    settings(**{KEEP_SECONDS: "60"})


@pytest.fixture
def short_batches(settings: Callable[..., None]) -> None:
    """For real-time mode. A batch's stages run at the same time, on the session's two cores."""
    settings(**{MIN_DURATION: "100", "spark.sql.shuffle.partitions": "1"})


@pytest.fixture
def running() -> Iterator[list[Any]]:
    """Queries that are stopped at the end."""
    queries: list[Any] = []
    yield queries
    for query in queries:
        query.stop()


class Stream:
    """A streaming query over files: each fed file is a micro-batch."""

    def __init__(self, spark: SparkSession, folder: Path, schema: str) -> None:
        self._spark = spark
        self._input = folder / "input"
        self._input.mkdir(parents=True)
        self.checkpoint = folder / "checkpoint"
        self._schema = T._parse_datatype_string(schema)
        self._files = 0
        self.progress: list[Any] = []

    def feed(self, *batches: list[Any]) -> None:
        """Adds micro-batches of rows, in their order, to be processed by the next run."""
        codec = struct_codec(self._schema)
        for rows in batches:
            table = pa.Table.from_arrays(codec.encode_columns(rows), schema=pa.schema(codec.arrow))
            name = f"{self._files:06}.parquet"
            path = self._input / f"_{name}"
            pq.write_table(table, path)
            # The file source takes files in the order of their times, and none with this name.
            os.utime(path, (1e9 + self._files, 1e9 + self._files))
            path.rename(self._input / name)
            self._files += 1

    def source(self) -> DataFrame:
        """What was fed, as a streaming DataFrame."""
        reader = self._spark.readStream.schema(self._schema)
        return reader.option("maxFilesPerTrigger", 1).parquet(str(self._input))

    def run(
        self,
        build: Callable[[DataFrame], DataFrame],
        *,
        mode: str = "append",
        options: dict[str, str] | None = None,
    ) -> list[Row]:
        """Runs a query over what was fed and not yet processed; returns what it emitted."""
        return list(chain(*self.micro_batches(build(self.source()), mode, options)))

    def micro_batches(
        self, query: DataFrame, mode: str = "append", options: dict[str, str] | None = None
    ) -> list[list[Row]]:
        """Runs a query to its end; returns what each micro-batch emitted."""
        emitted: list[list[Row]] = []
        running = (
            query.writeStream.outputMode(mode)
            .option("checkpointLocation", str(self.checkpoint))
            .options(**(options or {}))
            .foreachBatch(lambda df, _: emitted.append(df.collect()))
            .trigger(availableNow=True)
            .start()
        )
        try:
            running.awaitTermination()
        finally:
            running.stop()
        self.progress = running.recentProgress
        return emitted


@pytest.fixture(scope="session")
def stream_class() -> type[Stream]:
    """What the streams of a test are."""
    return Stream


@pytest.fixture
def stream(
    spark: SparkSession, tmp_path: Path, stream_class: type[Stream]
) -> Callable[[str], Stream]:
    """Makes streams of a schema, each with a folder of its own."""
    made = 0

    def make(schema: str) -> Stream:
        nonlocal made
        made += 1
        return stream_class(spark, tmp_path / f"stream{made}", schema)

    return make
