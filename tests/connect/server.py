"""A Spark Connect server in a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests import jvm_archive

CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"


@contextmanager
def running(
    folder: Path, settings: Mapping[str, str], environment: Mapping[str, str]
) -> Iterator[str]:
    """Starts a server; gives the address that clients connect to."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    whole = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": jvm_archive.OPTIONS,
        **dict([jvm_archive.DAEMON]),
        **jvm_archive.CODEGEN,
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **settings,
    }
    confs = [part for key, value in whole.items() for part in ("--conf", f"{key}={value}")]
    log = folder / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(SUBMIT), "--master", "local[2,2]", *confs, "--class", CLASS],
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, **environment},
            start_new_session=True,
        )
    try:
        _wait(process, port, log)
        yield f"sc://127.0.0.1:{port}"
    finally:
        # Its Python processes are of the same group.
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Until the server takes connections."""
    end = time.monotonic() + 90
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError(f"the server did not start:\n{log.read_text()[-4000:]}")
