"""A server of S3 on loopback."""

from __future__ import annotations

import contextlib
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import boto3

from tests.fault.drivers import Started
from tests.stores.artifacts import jars_for_spark
from tests.stores.ports import free_port, is_open

BUCKET = "checkpoints"
REQUEST = re.compile(r'"(?:\x1b\[\d+m)*(GET|PUT|HEAD|POST|DELETE) (\S+) HTTP')


class S3:
    """The server, and the requests that it answered."""

    url = f"s3a://{BUCKET}"

    def __init__(self, endpoint: str, log: Path) -> None:
        self.endpoint = endpoint
        self._log = log
        self.client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            aws_access_key_id="key",
            aws_secret_access_key="secret",
            region_name="us-east-1",
        )

    def settings(self) -> dict[str, str]:
        """What a session needs for it."""
        return {
            "spark.jars": jars_for_spark("s3"),
            "spark.hadoop.fs.s3a.endpoint": self.endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
            "spark.hadoop.fs.s3a.access.key": "key",
            "spark.hadoop.fs.s3a.secret.key": "secret",
        }

    def files(self, prefix: str = "") -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [item["Key"] for page in pages for item in page.get("Contents", [])]

    def requests(self, since: int = 0, until: int | None = None) -> list[tuple[str, str]]:
        """Verb and path of each request between bytes of the log; a GET of a list is LIST."""
        found = REQUEST.findall(self._log.read_bytes()[since:until].decode(errors="replace"))
        return [("LIST" if "list-type=" in path else verb, path) for verb, path in found]

    def now(self) -> int:
        """For `requests`: where the log ends."""
        return self._log.stat().st_size

    @staticmethod
    def count(requests: list[tuple[str, str]]) -> Counter[str]:
        return Counter(verb for verb, _ in requests)


@contextlib.contextmanager
def s3(folder: Path) -> Iterator[S3]:
    """Moto's server with a bucket."""
    port = free_port()
    log = folder / "s3.log"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with Started(command, log) as server:
        server.wait_for(lambda: is_open(port), 60)
        store = S3(f"http://127.0.0.1:{port}", log)
        store.client.create_bucket(Bucket=BUCKET)
        yield store
