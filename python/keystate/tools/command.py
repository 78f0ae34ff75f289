"""The ``keystate`` command: operations on a query's checkpoint, and a look at an installation."""

from __future__ import annotations

import argparse
import ipaddress
import json
import logging
import os
import secrets
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from keystate import admin
from keystate._jvm import local
from keystate._jvm.session import CATALOG_KEY, configure, versions
from keystate._types.counted import counted
from keystate._types.ddl import quoted
from keystate._types.plain import to_json
from keystate.checkpoints.forgetting import Forgetting, told
from keystate.checkpoints.lookup import Target, key_from_text, map_key_from_text
from keystate.errors import KeystateError
from keystate.tools import backups, demo, doctor, history, warm_up
from keystate.tools.page import tables, text
from keystate.tools.progress import progress
from keystate.tools.serve import StateServer

#: Commands that need no Spark job: all but one only read checkpoints.
_READERS = ("inspect", "forget", "get", "history", "serve", "verify", "diff", "report")
_CHECKPOINTS = ("checkpoint", "before", "after")


#: The exit code of a program that a signal ends because nobody reads what it writes.
_NOBODY_READS = 128 + 13
#: A level of logs that no record has.
_NO_RECORDS = logging.CRITICAL + 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command, also one whose output goes to ``head``.

    Returns:
        The exit code; see :func:`_main`.
    """
    try:
        try:
            return _main(arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # Python writes what is left when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _NOBODY_READS


def _main(arguments: Sequence[str] | None) -> int:
    """Runs a command.

    Returns:
        The exit code: 0; 1 when ``verify``, ``doctor`` or ``demo`` found something wrong,
        ``diff`` a difference, ``get`` nothing or ``forget --check`` something; 2 when the command
        could not be carried out.
    """
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.run is _examine and not doctor.show(doctor.python_side(), print, as_json=given.json):
        return 1
    if given.run in (_show, _examine, _warm_up):
        _say(given, "Starting Spark ...")
    try:
        with given.opens(given) as session:
            code: int = given.run(session, given)
    except BrokenPipeError:
        raise
    except (KeystateError, PySparkException, Py4JError, ValueError, OSError) as error:
        print(f"keystate: {_reason(error, given.conf)}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        print("keystate: interrupted", file=sys.stderr)
        code = 2
    return code


@contextmanager
def _reader(given: argparse.Namespace) -> Iterator[Any]:
    """A session; or only a JVM that reads checkpoints, where that is enough."""
    checkpoints = [vars(given)[name] for name in given.reads]
    if checkpoints and local.fits(checkpoints, given.conf):
        with local.local_reader(given.verbose) as reader:
            yield reader
        return
    with _quiet(not given.verbose):
        session = _session([*given.settings, *given.conf])
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def _nothing(given: argparse.Namespace) -> Iterator[None]:
    """For a command that makes a session of its own."""
    with _quiet(not given.verbose):
        yield


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
    """The reason of an error, without the JVM's stack trace."""
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
    result = argparse.ArgumentParser(add_help=False)
    result.add_argument("--json", action="store_true", help="print what is found or done as JSON")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Any, what: str, *names: str) -> argparse.ArgumentParser:
        has_result = name != "demo"
        parents = [common, result] if has_result else [common]
        made = commands.add_parser(name, parents=parents, help=what, description=what)
        for argument in names:
            made.add_argument(argument)
        reads = [name for name in names if name in _CHECKPOINTS] if name in _READERS else []
        made.set_defaults(run=run, opens=_reader, settings=(), reads=reads)
        return made

    command("inspect", _inspect, "show what is in a checkpoint", "checkpoint")
    read = command("read-state", _read_state, "show a state, a row a line as JSON", "checkpoint")
    read.add_argument("--state", help="its name; '$timers' for the timers")
    read.add_argument("--operator", type=_count, help="the operator's number")
    read.add_argument("--of-version", type=_version, help="N + 1 for the state after batch N")
    read.add_argument("--limit", type=_count, default=20, help="how many rows; 20 by default")
    ask = command("sql", _sql, "ask SQL about states, each a table by its name", "checkpoint")
    ask.add_argument("query", help="such as 'SELECT count(*) FROM visits'")
    ask.add_argument("--limit", type=_count, default=100, help="how many rows; 100 by default")
    get = command("get", _get, "show what one key has in a state, as JSON", "checkpoint", "state")
    get.add_argument("key", help="as JSON, of several columns a list; a string may be bare")
    get.add_argument("--operator", type=_count, help="the operator's number")
    get.add_argument("--of-version", type=_version, help="N + 1 for the state after batch N")
    get.add_argument("--map-key", help="of a map: the one entry that is wanted")
    get.add_argument("--start", help="of a sorted map: where a range begins")
    get.add_argument("--end", help="of a sorted map: the first key after the range")
    past = command(
        "history", _history, "show what each batch changed of one key", "checkpoint", "key"
    )
    past.add_argument("--operator", type=_count, help="the operator's number")
    past.add_argument(
        "--follow", action="store_true", help="go on with a running query, until it is stopped"
    )
    forget = command(
        "forget", _forget, "let a query forget all states and timers of a key", "checkpoint", "key"
    )
    forget.add_argument("--operator", type=_count, help="the operator's number; by default all")
    forget.add_argument(
        "--check", action="store_true", help="only look what is left of it; reads every file"
    )
    serve = command(
        "serve", _serve, "show a page and answer lookups by HTTP, until it is stopped", "checkpoint"
    )
    serve.add_argument("--host", default="127.0.0.1", help="127.0.0.1 by default")
    serve.add_argument("--port", type=_port, default=8460, help="8460 by default; 0 for any")
    serve.add_argument("--token-file", help="has the token; by default one is made and printed")
    command("verify", _verify, "check every file of a checkpoint", "checkpoint")
    copy = command("savepoint", _savepoint, "copy what a query goes on from", "checkpoint", "path")
    copy.add_argument("--of-version", type=_version, help="N + 1 for the state after batch N")
    backups.options(copy)
    command("savepoints", _savepoints, "list the savepoints of a checkpoint", "checkpoint")
    what = "make a checkpoint of a savepoint"
    back = command("restore", _restore, what, "savepoint", "checkpoint")
    backups.by_reference(back)
    what = "delete a checkpoint but for what savepoints need"
    backups.original(command("delete", _delete, what, "checkpoint"))
    command("import", _import, "turn Spark's checkpoint into Keystate's", "source", "target")
    command("diff", _diff, "count the keys that differ in two checkpoints", "before", "after")
    rescale = command(
        "rescale",
        _rescale,
        "change the partitions of a query that is stopped, or elastic",
        "checkpoint",
    )
    rescale.add_argument("partitions", type=_partitions)
    report = command("report", _report_page, "write what is in a checkpoint as HTML", "checkpoint")
    report.add_argument("path", help="the file to write")
    examine = command("doctor", _examine, "check that stateful queries can run here")
    examine.add_argument(
        "--folder", help="where checkpoints will be; by default a temporary folder of this machine"
    )
    start = command("warm-up", _warm_up, "let sessions of this PySpark and Java start sooner")
    start.set_defaults(opens=_nothing)
    show = command("demo", _show, "run a small stream in the terminal, and show its states")
    show.set_defaults(settings=demo.SETTINGS)
    show.add_argument("--seconds", type=float, default=30, help="how long; 30 by default")
    show.add_argument(
        "--folder", help="where to keep the checkpoint; by default it is deleted at the end"
    )
    show.add_argument(
        "--replay", metavar="USER", help="run the last batch of the --folder again for a user"
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
    _tell(given, found, text(tables(found)))
    return 0


def _tell(given: argparse.Namespace, found: Any, told: str) -> None:
    """Prints what a command found, as the user wants it."""
    print(json.dumps(found, indent=2) if given.json else told, flush=True)


def _number(text: str, least: int, most: int) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"must be a number from {least} on, got {text}")
    if int(text) > most:
        raise argparse.ArgumentTypeError(f"must be at most {most}, got {text}")
    return int(text)


_version = partial(_number, least=0, most=2**63 - 1)
_count = partial(_number, least=0, most=2**31 - 1)
_partitions = partial(_number, least=1, most=2**31 - 1)
_port = partial(_number, least=0, most=2**16 - 1)


def _read_state(spark: SparkSession, given: argparse.Namespace) -> int:
    rows = admin.read_state(
        spark,
        given.checkpoint,
        state=given.state,
        operator=given.operator,
        version=given.of_version,
    )
    for (line,) in rows.limit(given.limit).select(F.to_json(F.struct("*"))).collect():
        print(line)
    return 0


def _sql(spark: SparkSession, given: argparse.Namespace) -> int:
    # PySpark logs an error of a query with its stack in the JVM, in one line of JSON.
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(_NO_RECORDS)
    try:
        spark.sql(f"USE {CATALOG_KEY.rpartition('.')[2]}.{quoted(given.checkpoint)}")
        found = spark.sql(given.query)
        rows = found.limit(given.limit + 1).collect()
    except PySparkException as error:
        # Behind the first line are the query again, and Spark's plan.
        first = next(line for line in str(error).splitlines() if line.strip())
        raise ValueError(first.rstrip(";")) from None
    more = len(rows) > given.limit
    cells = [[to_json(value) for value in row] for row in rows[: given.limit]]
    shown = [[_cell(value) for value in row] for row in cells]
    table = text([("", found.columns, shown)])
    told = {"columns": found.columns, "rows": cells, "more": more}
    _tell(given, told, f"{table}\nThere are more rows: --limit" if more else table)
    return 0


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def _get(spark: SparkSession, given: argparse.Namespace) -> int:
    target = Target(spark, given.checkpoint, given.state, given.operator, given.of_version)
    key = key_from_text(target.key_type, given.key)
    parts = [map_key_from_text(target, part) for part in (given.map_key, given.start, given.end)]
    value = target.read(key, *parts)
    print(json.dumps(to_json(value)))
    return 1 if value is None else 0


def _history(spark: SparkSession, given: argparse.Namespace) -> int:
    follower = history.show(spark, given.checkpoint, given.key, given.operator, as_json=given.json)
    if given.follow:
        with suppress(KeyboardInterrupt):
            follower.follow()
    return 0


def _forget(spark: SparkSession, given: argparse.Namespace) -> int:
    forgetting = Forgetting(spark, given.checkpoint, given.operator)
    key = forgetting.from_text(given.key)
    if given.check:
        found = forgetting.traces(key)
        _tell(given, found, told(found))
        return 1 if found["key"] else 0
    found = forgetting.request(key)
    of = ", ".join(map(str, found["operators"]))
    _tell(given, found, f"the key is forgotten with the next micro-batch, in the operators {of}")
    return 0


def _serve(spark: SparkSession, given: argparse.Namespace) -> int:
    token = secrets.token_urlsafe()
    shown = token
    if given.token_file:
        token, shown = Path(given.token_file).read_text().strip(), f"that in {given.token_file}"
        if not token:
            raise ValueError(f"there is no token in {given.token_file}")
    admin.inspect(given.checkpoint, spark=spark)  # there is one, and it can be read
    with StateServer(spark, given.checkpoint, (given.host, given.port), token) as server:
        host, port = server.server_address[:2]
        url = f"http://{host!s}:{port}"
        if not ipaddress.ip_address(str(host)).is_loopback:
            print(
                f"warning: {host!s} is not the loopback interface, and this is plain HTTP: the "
                "token and the state can be read on the way. Put a proxy with TLS before it",
                file=sys.stderr,
            )
        page = f"{url}/" if given.token_file else f"{url}/?token={quote(token)}"
        _tell(
            given,
            {"url": url, "page": page, "token": None if given.token_file else token},
            f"{url} serves {given.checkpoint}; token: {shown}\npage: {page}",
        )
        with suppress(KeyboardInterrupt):
            server.serve_forever()
    return 0


def _verify(spark: SparkSession, given: argparse.Namespace) -> int:
    with progress(spark, "partitions"):
        problems = admin.verify(given.checkpoint, spark=spark)
    told = "\n".join(problems) or "every file is as it was written"
    _tell(given, {"problems": problems}, told)
    return 1 if problems else 0


def _savepoint(spark: SparkSession, given: argparse.Namespace) -> int:
    return backups.savepoint(spark, given, partial(_tell, given))


def _savepoints(spark: SparkSession, given: argparse.Namespace) -> int:
    return backups.show(spark, given, partial(_tell, given))


def _restore(spark: SparkSession, given: argparse.Namespace) -> int:
    return backups.restore(spark, given, partial(_tell, given))


def _delete(spark: SparkSession, given: argparse.Namespace) -> int:
    return backups.delete(spark, given, partial(_tell, given))


def _import(spark: SparkSession, given: argparse.Namespace) -> int:
    batch = admin.import_checkpoint(given.source, given.target, spark=spark)
    _tell(given, {"batch": batch}, f"{given.target} has the state after batch {batch}")
    return 0


def _diff(spark: SparkSession, given: argparse.Namespace) -> int:
    found = admin.diff(given.before, given.after, spark=spark)
    counts = ["added", "removed", "changed"]
    heads = ["operator", "state", *counts, "same"]
    rows = [
        [str(state["operator"]), state["state"], *(str(state[c]) for c in [*counts, "same"])]
        for state in found
    ]
    _tell(given, {"states": found}, text([("", heads, rows)]))
    return 1 if any(state[count] != 0 for state in found for count in counts) else 0


def _rescale(spark: SparkSession, given: argparse.Namespace) -> int:
    before = admin.rescale(given.checkpoint, given.partitions, spark=spark)
    found = {"before": before, "partitions": given.partitions}
    _tell(given, found, f"rescaled from {before} to {counted(given.partitions, 'partition')}")
    return 0


def _report_page(spark: SparkSession, given: argparse.Namespace) -> int:
    with progress(spark, "checked and read"):
        page = admin.report(given.checkpoint, spark=spark).html()
    Path(given.path).write_text(page, encoding="utf-8")
    _tell(given, {"path": given.path}, given.path)
    return 0


def _say(given: argparse.Namespace, what: str) -> None:
    """Tells someone who waits what takes so long; not a program, which reads JSON."""
    if not getattr(given, "json", False):
        print(what, flush=True)


def _warm_up(_: None, given: argparse.Namespace) -> int:
    archive = warm_up.make()
    size = archive.stat().st_size
    told = f"kept in {archive} ({size / 1e6:.0f} MB), for sessions of this PySpark and this Java"
    _tell(given, {"path": str(archive), "bytes": size}, told)
    return 0


def _examine(spark: SparkSession, given: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="keystate-doctor-") as folder:
        findings = doctor.session_side(
            spark, given.folder or folder, lambda what: _say(given, what)
        )
        well = doctor.show(findings, print, as_json=given.json)
    return 0 if well else 1


def _show(spark: SparkSession, given: argparse.Namespace) -> int:
    if given.replay:
        if not given.folder:
            raise ValueError("--replay needs the --folder of a demo before it")
        print(demo.again(spark, given.folder, given.replay))
        return 0
    with tempfile.TemporaryDirectory(prefix="keystate-demo-") as folder:
        well = demo.run(spark, given.folder or folder, given.seconds)
    if given.folder:
        print(f"Look into it: keystate inspect {given.folder}/checkpoint")
        print(
            "Run its last batch once more for one user, row by row: "
            f"keystate demo --folder {given.folder} --replay ann"
        )
    else:
        print("To look into it, keep its checkpoint: keystate demo --folder FOLDER")
    return 0 if well else 1
