"""examples/postgres_sink.py on a PostgreSQL of its own, killed several times."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import jvm_archive
from tests.fault import batch_files
from tests.fault.drivers import Started, committed
from tests.stores.ports import free_port

psycopg = pytest.importorskip("psycopg", reason="needs psycopg")

FILES, ROWS, USERS = 16, 30, 7


def programs() -> Path | None:
    """PostgreSQL's programs, of which Debian has only some on the path."""
    on_path = shutil.which("initdb")
    places = (
        [Path(on_path)] if on_path else sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    )
    return places[-1].parent if places else None


pytestmark = pytest.mark.skipif(programs() is None, reason="needs PostgreSQL")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[str]:
    """A server on loopback; yields how to connect. It refuses to run as root."""
    bin_folder = programs()
    assert bin_folder is not None
    with tempfile.TemporaryDirectory() as place:
        as_user: list[str] = []
        if os.geteuid() == 0:
            shutil.chown(place, "nobody")
            as_user = ["setpriv", "--reuid=nobody", "--clear-groups"]
        yield from served(bin_folder, place, as_user, tmp_path / "postgres.log")


def served(bin_folder: Path, place: str, as_user: list[str], log: Path) -> Iterator[str]:
    port = free_port()
    data = f"{place}/data"
    initdb = [*as_user, str(bin_folder / "initdb"), "-D", data, "-U", "test", "-A", "trust"]
    subprocess.run(initdb, check=True, capture_output=True, cwd="/")
    settings = {
        "port": port,
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",
        "max_prepared_transactions": 20,
        "fsync": "off",
    }
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    server = [*as_user, str(bin_folder / "postgres"), "-D", data, *options]
    conninfo = f"host=127.0.0.1 port={port} user=test dbname=postgres"
    with Started(server, log) as running:

        def answers() -> bool:
            try:
                psycopg.connect(conninfo).close()
                return True
            except psycopg.OperationalError:
                return False

        running.wait_for(answers, 30)
        yield conninfo


def make_input(folder: Path, rng: random.Random) -> list[tuple[str, int, int]]:
    """Writes files of payments; returns the rows that the table should have."""
    counts: dict[str, list[int]] = {}
    expected = []
    (folder / "input").mkdir()
    for number in range(FILES):
        lines = []
        for _ in range(ROWS):
            user, amount = f"u{rng.randrange(USERS)}", rng.randrange(100)
            paid = counts.setdefault(user, [])
            paid.append(amount)
            lines.append(json.dumps({"user": user, "amount": amount}))
            expected.append((user, len(paid), sum(paid)))
        file = folder / "input" / f"{number:03}.json"
        file.write_text("\n".join(lines))
        os.utime(file, (1e9 + number, 1e9 + number))
    return sorted(expected)


def rows(conninfo: str, query: str) -> list[Any]:
    with psycopg.connect(conninfo) as connection:
        return sorted(connection.execute(query).fetchall())


@pytest.mark.turns
def test_killed(tmp_path: Path, database: str) -> None:
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    expected = make_input(tmp_path, rng)
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.master local[2]\nspark.ui.enabled false\n"
        f"spark.driver.extraJavaOptions {jvm_archive.OPTIONS}\n"
    )
    arguments = [database, str(tmp_path / "input"), str(tmp_path / "checkpoint")]
    done = False
    kills = 0
    while not done:
        most = 10**6 if kills == 4 else committed(tmp_path) + rng.randint(2, 4)
        with (tmp_path / "spark-defaults.conf").open("a") as settings:
            settings.write(f"spark.sql.shuffle.partitions {rng.randint(1, 4)}\n")
        with Started(
            [sys.executable, "-m", "examples.postgres_sink", *arguments],
            tmp_path / "example.log",
            SPARK_CONF_DIR=str(tmp_path),
        ) as running:
            while running.exit_code is None and committed(tmp_path) < most:
                time.sleep(0.01)
            if running.exit_code is None:
                time.sleep(rng.uniform(0, 0.3))
            done = running.exit_code == 0
            assert running.exit_code in (None, 0), running.log
        kills += 1
        batch_files.keep_a_file_a_batch(tmp_path)
    assert rows(database, "SELECT * FROM totals") == expected
    assert rows(database, "SELECT gid FROM pg_prepared_xacts") == []
