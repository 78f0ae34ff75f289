"""docs/connect.md: its program prints what it shows, and its server has every setting."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import keystate
import pytest

from tests.test_readme import DOCS, SNIPPET

PAGE = (DOCS / "connect.md").read_text()


# The package pyspark-client is PySpark without these.
CLIENT_ONLY = "import sys; sys.modules.update({'pyspark.core': None, 'py4j': None})\n"


def run(remote: str, folder: Path, before: str = "") -> None:
    """Runs the page's program on a server."""
    ((program, shown),) = SNIPPET.findall(PAGE)
    (folder / "client.py").write_text(before + program.replace("sc://localhost", remote))
    # Of a server in the same process: any free port.
    environment = {**os.environ, "SPARK_TESTING": "1"}
    environment.pop("SPARK_CONNECT_MODE_ENABLED", None)
    done = subprocess.run(
        [sys.executable, "client.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout) == (0, shown), done.stderr


def test_the_program_prints_what_it_shows(address: str, tmp_path: Path) -> None:
    """With no more of PySpark than pyspark-client has."""
    run(address, tmp_path, CLIENT_ONLY)


@pytest.mark.skipif("not os.environ.get('SLOW')", reason="SLOW: starts one more server")
def test_the_program_prints_the_same_on_a_server_in_its_process(tmp_path: Path) -> None:
    run("local[2]", tmp_path)


def test_the_server_is_started_with_every_setting() -> None:
    shown = dict(re.findall(r"--conf (\S+)=(\S+)", PAGE))
    assert shown.items() <= keystate.server_settings().items()
    assert "spark.connect.extensions.relation.classes" in shown
