"""A real Prometheus that scrapes a query, with the configuration in examples/monitoring."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
MONITORING = ROOT / "examples" / "monitoring"
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text())
_ADDRESS = "127.0.0.1:19090"

#: Asks the Prometheus: the path of its API, and parameters.
Ask = Callable[..., Any]


@contextmanager
def monitored(folder: Path) -> Iterator[Ask]:
    """Runs queries and a Prometheus for them."""
    ports = folder / "port"
    program = [sys.executable, "-m", "tests.query.monitored_query", str(ports), str(folder)]
    with subprocess.Popen(program, cwd=ROOT, stdin=subprocess.PIPE) as query:
        try:
            deadline = time.monotonic() + 90
            while not ports.exists():
                assert query.poll() is None and time.monotonic() < deadline
                time.sleep(0.1)
            with _prometheus(folder, ports.read_text()) as ask:
                yield ask
        finally:
            query.communicate(b"", timeout=60)


@contextmanager
def _prometheus(folder: Path, target: str) -> Iterator[Ask]:
    config = (MONITORING / "prometheus.yml").read_text()
    config = config.replace("driver:4040", target).replace("15s", "1s")
    config = config.replace("alerts.yml", str(folder / "alerts.yml"))
    (folder / "prometheus.yml").write_text(f"global: {{evaluation_interval: 1s}}\n{config}")
    shutil.copy(MONITORING / "alerts.yml", folder)
    subprocess.run(["promtool", "check", "config", str(folder / "prometheus.yml")], check=True)
    arguments = [
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={_ADDRESS}",
    ]
    log = (folder / "prometheus.log").open("w")
    with log, subprocess.Popen(["prometheus", *arguments], stderr=log) as server:
        try:
            yield _ask
        finally:
            server.terminate()


def _ask(path: str, **parameters: Any) -> Any:
    url = f"http://{_ADDRESS}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)["data"]


def of_all(expression: str) -> str:
    """An expression of a panel, with all that its choices can choose."""
    return expression.replace("$app", ".*").replace("$query", ".*")
