"""HDFS on loopback."""

from __future__ import annotations

import contextlib
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError

from tests.fault.drivers import Started
from tests.stores.artifacts import HERE, jars


class Hdfs:
    """A cluster, as `s3_server.S3` is a server."""

    def __init__(self, url: str, web: str) -> None:
        self.url = url
        self._web = web

    def settings(self) -> dict[str, str]:
        """What a session needs for it."""
        return {"spark.hadoop.dfs.replication": "1"}

    def files(self, prefix: str = "") -> list[str]:
        """The paths of all files below a folder, which ends with a slash."""
        try:
            with urllib.request.urlopen(f"{self._web}/webhdfs/v1/{prefix}?op=LISTSTATUS") as answer:
                found = json.load(answer)["FileStatuses"]["FileStatus"]
        except HTTPError as error:
            if error.code == 404:
                return []
            raise
        paths: list[str] = []
        for status in found:
            path = prefix + status["pathSuffix"]
            paths += [path] if status["type"] == "FILE" else self.files(f"{path}/")
        return paths


@contextlib.contextmanager
def hdfs(folder: Path) -> Iterator[Hdfs]:
    """A cluster with a name node and a data node."""
    program = [str(HERE / "MiniHdfs.java"), str(folder / "hdfs")]
    # Where its web server unpacks files, which it can't delete when it is killed.
    java = ["java", "-Xmx512m", f"-Djava.io.tmpdir={folder}"]
    command = [*java, "-cp", ":".join(map(str, jars("hdfs"))), *program]
    with Started(command, folder / "hdfs.log") as cluster:
        yield Hdfs(cluster.text(r"\nHDFS at (\S+)"), cluster.text(r"WebHDFS at (\S+)"))
