"""The ``keystate`` command: operations on a query's checkpoint, and a look at an installation."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from keystate import _demo, _doctor, _report, admin
from keystate.errors import KeystateError
from keystate.session import configure, versions


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command.

    Returns:
        The exit code: 0; 1 when ``verify``, ``doctor`` or ``demo`` found something wrong or
        ``diff`` a difference; 2 when the command could not be carried out.
    """
    parser = _parser()
    given = parser.parse_args(arguments)
    session = None
    if given.run is _examine and not _doctor.show(_doctor.python_side(), print):
        return 1
    if given.run is _show:
        print("Starting Spark ...", flush=True)
    try:
        with _quiet(not given.verbose):
            session = _session([*given.settings, *given.conf])
        code: int = given.run(session, given)
    except (KeystateError, PySparkException, Py4JError, ValueError, OSError) as error:
        print(f"keystate: {_reason(error, given.conf)}", file=sys.stderr)
        code = 2
    finally:
        if session is not None:
            session.stop()
    return code


@contextmanager
def _quiet(wanted: bool) -> Iterator[None]:
    """Keeps what the JVM that is started here prints, such as warnings, from the terminal.

    It keeps the standard error that it is started with. If it does not start, it is shown why.
    """
    if not wanted:
        yield
        return
    with tempfile.TemporaryFile() as log:
        sys.stderr.flush()
        terminal = os.dup(2)
        os.dup2(log.fileno(), 2)
        try:
            yield
        except Exception:
            log.seek(0)
            os.write(terminal, log.read())
            raise
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)


def _reason(error: Exception, conf: Sequence[str]) -> str:
    """What happened, without the JVM's stack trace."""
    if "JAVA_GATEWAY_EXITED" in str(error):
        return f"Spark did not start with the settings [{', '.join(conf)}]; its reason is above"
    if isinstance(error, Py4JJavaError):
        return str(error.java_exception.toString())
    return str(error)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="keystate", description="Operations on the checkpoint of a streaming query."
    )
    parser.add_argument("--version", action="version", version=versions()["keystate"])
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a Spark setting, such as one of the checkpoint's file system; any number of them",
    )
    common.add_argument("--verbose", action="store_true", help="show what Spark's JVM prints")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Any, text: str, *names: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, parents=[common], help=text, description=text)
        for argument in names:
            made.add_argument(argument)
        made.set_defaults(run=run, settings=())
        return made

    inspect = command("inspect", _inspect, "show what is in a checkpoint", "checkpoint")
    inspect.add_argument("--json", action="store_true", help="as JSON")
    read = command("read-state", _read_state, "show a state, a row a line as JSON", "checkpoint")
    read.add_argument("--state", help="its name; '$timers' for the timers")
    read.add_argument("--operator", type=int, help="the operator's number")
    read.add_argument("--of-version", type=int, help="N + 1 for the state after batch N")
    read.add_argument("--limit", type=_count, default=20, help="how many rows; 20 by default")
    command("verify", _verify, "check every file of a checkpoint", "checkpoint")
    command("savepoint", _savepoint, "copy what a stopped query goes on from", "checkpoint", "path")
    command("import", _import, "turn Spark's checkpoint into Keystate's", "source", "target")
    command("diff", _diff, "count the keys that differ in two checkpoints", "before", "after")
    rescale = command("rescale", _rescale, "change a stopped query's partitions", "checkpoint")
    rescale.add_argument("partitions", type=int)
    report = command("report", _report_page, "write what is in a checkpoint as HTML", "checkpoint")
    report.add_argument("path", help="the file to write")
    doctor = command("doctor", _examine, "check that stateful queries can run here")
    doctor.add_argument(
        "--folder", help="where checkpoints will be; by default a temporary folder of this machine"
    )
    demo = command("demo", _show, "run a small stream in the terminal, and show its states")
    demo.set_defaults(settings=_demo.SETTINGS)
    demo.add_argument("--seconds", type=float, default=30.0, help="how long; 30 by default")
    demo.add_argument(
        "--folder", help="where to keep the checkpoint; by default it is deleted at the end"
    )
    return parser


def _session(settings: Sequence[str]) -> SparkSession:
    builder = SparkSession.builder.master("local[1]").appName("keystate")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(key, value)
    for setting in settings:
        key, _, value = setting.partition("=")
        builder = builder.config(key, value)
    return configure(builder).getOrCreate()


def _inspect(spark: SparkSession, given: argparse.Namespace) -> int:
    found = admin.inspect(given.checkpoint, spark=spark)
    print(json.dumps(found, indent=2) if given.json else _report.text(_report.tables(found)))
    return 0


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a number from 0 on, got {text}")
    return int(text)


def _read_state(spark: SparkSession, given: argparse.Namespace) -> int:
    rows = admin.read_state(
        spark,
        given.checkpoint,
        state=given.state,
        operator=given.operator,
        version=given.of_version,
    )
    for line in rows.limit(given.limit).toJSON().collect():
        print(line)
    return 0


def _verify(spark: SparkSession, given: argparse.Namespace) -> int:
    problems = admin.verify(given.checkpoint, spark=spark)
    print("\n".join(problems) or "every file is as it was written")
    return 1 if problems else 0


def _savepoint(spark: SparkSession, given: argparse.Namespace) -> int:
    batch = admin.savepoint(given.checkpoint, given.path, spark=spark)
    print(f"{given.path} has the state after batch {batch}")
    return 0


def _import(spark: SparkSession, given: argparse.Namespace) -> int:
    batch = admin.import_checkpoint(given.source, given.target, spark=spark)
    print(f"{given.target} has the state after batch {batch}")
    return 0


def _diff(spark: SparkSession, given: argparse.Namespace) -> int:
    found = admin.diff(given.before, given.after, spark=spark)
    counts = ["added", "removed", "changed"]
    heads = ["operator", "state", *counts, "same"]
    rows = [
        [str(state["operator"]), state["state"], *(str(state[c]) for c in [*counts, "same"])]
        for state in found
    ]
    print(_report.text([("", heads, rows)]))
    return 1 if any(state[count] != 0 for state in found for count in counts) else 0


def _rescale(spark: SparkSession, given: argparse.Namespace) -> int:
    before = admin.rescale(given.checkpoint, given.partitions, spark=spark)
    print(f"rescaled from {before} to {given.partitions} partitions")
    return 0


def _report_page(spark: SparkSession, given: argparse.Namespace) -> int:
    admin.report(given.checkpoint, given.path, spark=spark)
    print(given.path)
    return 0


def _examine(spark: SparkSession, given: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="keystate-doctor-") as folder:
        findings = _doctor.session_side(spark, given.folder or folder)
        well = _doctor.show(findings, print)
    return 0 if well else 1


def _show(spark: SparkSession, given: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="keystate-demo-") as folder:
        well = _demo.run(spark, given.folder or folder, given.seconds)
    if given.folder:
        print(f"Look into it: keystate inspect {given.folder}/checkpoint")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
