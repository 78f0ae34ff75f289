"""What Spark asks of Kubernetes: a server that says yes to all, and keeps it."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class _Requests(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ApiServer

    def _answer(self) -> None:
        made = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.made.append(made)
        # What owns others is named by that.
        made["metadata"]["uid"] = str(len(self.server.made))
        answer = json.dumps(made).encode()
        self.send_response(201)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_PATCH = _answer

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


class ApiServer(ThreadingHTTPServer):
    """There is no cluster behind it: nothing is started."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Requests)
        #: What was asked for, the first one first.
        self.made: list[Any] = []

    @property
    def master(self) -> str:
        return f"k8s://http://127.0.0.1:{self.server_port}"

    def of_kind(self, kind: str) -> list[Any]:
        return [each for each in self.made if each["kind"] == kind]


@contextlib.contextmanager
def api_server() -> Iterator[ApiServer]:
    with ApiServer() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
