"""The worker's end of the side channel, with a server that misbehaves."""

from __future__ import annotations

import json
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from keystate._worker.messages import state_client
from keystate._worker.messages.state_client import StateClient
from keystate.errors import KeystateError

from tests.fault import drivers

SECRET = "s" * 36
KNOWN, UNKNOWN = struct.pack(">i", 1), struct.pack(">i", 0)


@contextmanager
def server(handle: Callable[[socket.socket, int], None], path: Path | None = None) -> Iterator[Any]:
    """Listens, and gives each connection with its number to `handle`; yields the address."""
    family = socket.AF_UNIX if path else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.bind(str(path) if path else ("127.0.0.1", 0))
    listening.listen(1)

    def accept() -> None:
        number = 0
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                handle(connection, number)
            number += 1

    threading.Thread(target=accept, daemon=True).start()
    host, port = ("", 0) if path else listening.getsockname()
    try:
        yield {"path": str(path)} if path else {"host": host, "port": port}
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()


def receive(connection: socket.socket) -> bytes:
    (length,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
    return connection.recv(length, socket.MSG_WAITALL) if length else b""


def answer(connection: socket.socket) -> None:
    """Answers one question."""
    assert json.loads(receive(connection))["op"] == "operator_state"
    receive(connection)
    data = json.dumps({"state": "there", "unions": {}}).encode()
    connection.sendall(struct.pack(">i", len(data)) + data + struct.pack(">i", 0))


@pytest.fixture(autouse=True)
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_client, "_CONNECT_SECONDS", 1.0)


def refused(client: StateClient, match: str) -> None:
    with pytest.raises(KeystateError, match=match):
        client.operator_state([])
    # It does not begin anew: whatever is asked next depends on what was said before.
    with pytest.raises(KeystateError, match=match):
        client.operator_state([])


@pytest.mark.parametrize("unix", [False, True])
def test_an_answer_may_take_long_and_connecting_is_tried_again(unix: bool) -> None:
    def handle(connection: socket.socket, number: int) -> None:
        assert receive(connection) == SECRET.encode()
        if number < 2:
            return
        connection.sendall(KNOWN)
        time.sleep(1.5)
        answer(connection)

    with (
        tempfile.TemporaryDirectory() as folder,
        server(handle, Path(folder, "socket") if unix else None) as address,
    ):
        client = StateClient(address, SECRET)
        assert client.operator_state([]) == ("there", {})
        client.close()


def test_a_server_that_does_not_take_connections() -> None:
    stop = threading.Event()

    def handle(connection: socket.socket, number: int) -> None:
        stop.wait(10)

    with server(handle) as address:
        refused(StateClient(address, SECRET), "timed out.*has ended.*or the executor is gone")
        stop.set()


def test_a_server_that_is_gone(tmp_path: Path) -> None:
    with server(lambda connection, number: None) as address:
        pass
    refused(StateClient(address, SECRET), "refused.*or the executor is gone")
    refused(StateClient({"path": str(tmp_path / "none")}, SECRET), "No such file")


def test_a_task_that_has_ended() -> None:
    def handle(connection: socket.socket, number: int) -> None:
        receive(connection)
        connection.sendall(UNKNOWN)

    with server(handle) as address:
        refused(StateClient(address, SECRET), "does not know the task.*has ended")


def test_a_server_that_goes_amid_an_answer() -> None:
    def handle(connection: socket.socket, number: int) -> None:
        receive(connection)
        connection.sendall(KNOWN)
        receive(connection)
        connection.sendall(struct.pack(">i", 100) + b"{")

    with server(handle) as address:
        refused(StateClient(address, SECRET), "closed the connection|reset")


@pytest.mark.turns
def test_a_query_over_unix_domain_sockets(tmp_path: Path) -> None:
    # A socket's path can't be long.
    with tempfile.TemporaryDirectory() as folder:
        with drivers.Driver("unix_socket_query.py", tmp_path / "log", folder) as driver:
            assert driver.wait() == 0, driver.log
        assert "[(1, 5, 2), (1, 6, 2)]\n1\n" in driver.log
