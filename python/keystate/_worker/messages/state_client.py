"""The side channel: asks the JVM for state that was too large to be sent ahead.

One socket a task, opened at the first question with the task's secret, which the JVM says it knows.
A question is ``[int32 length][JSON]`` followed by
``[int32 length][Arrow stream]``, the keys asked for or nothing; an answer is the same, its JSON
``{"error": ...}``, or ``{"next": token}`` when more pages follow.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from keystate._spec.protocol import Control, Message, Op, Page, Question, Reply, Server
from keystate.errors import KeystateError, code_in

#: How long connecting may take. An answer may take as long as it needs: when the executor or the
#: task ends, the connection is closed.
_CONNECT_SECONDS = 30.0
_RETRY_SECONDS = 0.05

#: Where the control of a task without a JVM has its client; nothing of it goes over a wire.
OWN_CLIENT = "client"


class StateClient:
    """A task's end of the side channel.

    Args:
        server: where the JVM listens: a ``path``, or a ``host`` and a ``port``.
        secret: the task's.
    """

    def __init__(self, server: dict[str, Any], secret: str) -> None:
        self._server = server
        self._secret = secret
        self._socket: socket.socket | None = None
        self._broken: str | None = None
        self.generation = 0

    def get(self, state: int, slot: int, keys: pa.Array) -> pa.Array:
        """The values of the keys that are there, in their order."""
        _, batch = self._ask(
            {Question.OP: Op.GET, Question.STATE: state, Question.KEY_INDEX: slot}, keys
        )
        return batch.column(0)

    def scan(
        self,
        state: int,
        slot: int,
        bounds: list[str],
        keys: pa.Array | None,
        reverse: bool,
        limit: int,
    ) -> Iterator[tuple[list[pa.Array], bool, int]]:
        """Pages of a state's columns, whether more follow, and what is in them.

        The last is the number of slots of the generation before this one whose changes the JVM had
        read by then.

        Args:
            state: the state's index.
            slot: the key's slot.
            bounds: ``start`` (inclusive), ``end`` (exclusive), both or neither; one for each of
                `keys`.
            keys: the user keys to start from and to end before.
            reverse: from the last to the first.
            limit: about how many entries a page has.
        """
        question = {
            Question.OP: Op.SCAN,
            Question.STATE: state,
            Question.KEY_INDEX: slot,
            Question.BOUNDS: bounds,
            Question.REVERSE: reverse,
            Question.LIMIT: limit,
            Question.FROM: "",
        }
        while True:
            answer, batch = self._ask(question, keys)
            more = Reply.NEXT in answer
            yield batch.columns, more, answer[Reply.READ]
            if not more:
                return
            question[Question.FROM] = answer[Reply.NEXT]

    def read_list(self, state: int, slot: int) -> tuple[list[pa.Array], int]:
        """All elements of a list by page, and what is in them, as in `scan`.

        What the JVM reads between two pages is in the last one: lists grow at their end.
        """
        pages = list(self.scan(state, slot, [], None, False, 10_000))
        return [columns[0] for columns, _, _ in pages], pages[-1][2]

    def broadcast(self, state: int, limit: int) -> Iterator[list[pa.Array]]:
        """Pages of a broadcast state's keys and values."""
        question = {
            Question.OP: Op.BROADCAST,
            Question.STATE: state,
            Question.LIMIT: limit,
            Question.FROM: "",
        }
        while True:
            answer, batch = self._ask(question)
            yield batch.columns
            if Reply.NEXT not in answer:
                return
            question[Question.FROM] = answer[Reply.NEXT]

    def keys(self, state: int, changes: pa.RecordBatch | None) -> pa.RecordBatch:
        """The next keys that have a state, with all their states, as in a message.

        Args:
            state: the state's index.
            changes: what was changed of the keys before these; None to start with the first.
        """
        return self._ask({Question.OP: Op.KEYS, Question.STATE: state}, changes)[1]

    def changes(self, changes: pa.RecordBatch) -> None:
        """Hands over the changes of an answer that need not wait for its turn."""
        self._exchange({Question.OP: Op.CHANGES}, changes)

    def timers(self) -> pa.RecordBatch | None:
        """The next timers of a batch, in a message; None when none are left."""
        _, data = self._exchange({Question.OP: Op.TIMERS})
        if not data:
            return None
        message = pa.ipc.open_stream(data).read_next_batch()
        return pa.RecordBatch.from_struct_array(message.column(Message.MESSAGE))

    def close(self) -> None:
        """Closes the socket, if it was opened."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def operator_state(self, unions: list[str]) -> tuple[str, dict[str, list[str]]]:
        """The subtask's operator state as JSON, and the elements that all subtasks have of lists.

        The state is empty when there is none.

        Args:
            unions: the names of these lists.
        """
        answer, _ = self._exchange({Question.OP: Op.OPERATOR_STATE, Question.UNIONS: unions})
        return answer[Reply.STATE], answer[Reply.UNIONS]

    def raw_keyed(self) -> Iterator[tuple[int, bytes]]:
        """The raw streams of the subtask's key groups, each with its group."""
        group = -1
        while True:
            answer, stream = self._exchange({Question.OP: Op.RAW_KEYED, Question.FROM: group + 1})
            if Reply.GROUP not in answer:
                return
            group = answer[Reply.GROUP]
            yield group, stream

    def _ask(
        self, question: dict[str, Any], keys: pa.Array | pa.RecordBatch | None = None
    ) -> tuple[dict[str, Any], pa.RecordBatch]:
        answer, data = self._exchange(question, keys)
        return answer, pa.ipc.open_stream(data).read_next_batch()

    def _exchange(
        self, question: dict[str, Any], keys: pa.Array | pa.RecordBatch | None = None
    ) -> tuple[dict[str, Any], bytes]:
        if self._broken is not None:
            raise KeystateError(self._broken, code="KEYSTATE_TASK_ENDED")
        question[Question.CACHE_EPOCH] = self.generation
        try:
            if self._socket is None:
                self._socket = self._connect()
            self._socket.sendall(_frame(json.dumps(question).encode()) + _frame(_stream(keys)))
            answer = json.loads(_read(self._socket))
            data = _read(self._socket)
        except OSError as e:
            self.close()
            self._broken = (
                f"the executor can't be asked for state at {self._server}: "
                f"{e or type(e).__name__}. The task has ended (it was cancelled, or its result was "
                "not read to the end), or the executor is gone"
            )
            raise KeystateError(self._broken, code="KEYSTATE_TASK_ENDED") from e
        if Reply.ERROR in answer:
            error = answer[Reply.ERROR]
            code = code_in(error) or "KEYSTATE_NOT_ANSWERED"
            raise KeystateError(f"the state could not be read: {error}", code=code)
        return answer, data

    def _connect(self) -> socket.socket:
        """Connects, again and again if need be: a server under siege lets go of strangers."""
        end = time.monotonic() + _CONNECT_SECONDS
        while True:
            connection = self._new_socket()
            try:
                connection.settimeout(max(_RETRY_SECONDS, end - time.monotonic()))
                connection.connect(self._peer())
                connection.sendall(_frame(self._secret.encode()))
                known = struct.unpack(">i", _exactly(connection, 4)) == (1,)
            except OSError as e:
                connection.close()
                if time.monotonic() + _RETRY_SECONDS > end or _is_gone(e):
                    raise
                time.sleep(_RETRY_SECONDS)
            else:
                if not known:
                    connection.close()
                    raise ConnectionAbortedError("it does not know the task")
                connection.settimeout(None)
                return connection

    def _peer(self) -> Any:
        path = self._server.get(Server.PATH)
        return path or (self._server[Server.HOST], self._server[Server.PORT])

    def _new_socket(self) -> socket.socket:
        if Server.PATH in self._server:
            return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        family = socket.AF_INET6 if ":" in self._server[Server.HOST] else socket.AF_INET
        connection = socket.socket(family, socket.SOCK_STREAM)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection


def open_client(control: dict[str, Any]) -> Any:
    """The side channel of a task; one that runs without a JVM brings its own."""
    own = control.get(OWN_CLIENT)
    return StateClient(control[Control.SERVER], control[Control.SECRET]) if own is None else own


def _is_gone(error: OSError) -> bool:
    """Whether there is nobody to be waited for."""
    return isinstance(error, (ConnectionRefusedError, FileNotFoundError, PermissionError))


def _read(connection: socket.socket) -> bytes:
    (length,) = struct.unpack(">i", _exactly(connection, 4))
    return _exactly(connection, length)


def _exactly(connection: socket.socket, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        part = connection.recv(min(1 << 20, length - len(parts)))
        if not part:
            raise ConnectionResetError("it closed the connection")
        parts += part
    return bytes(parts)


def _frame(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _stream(keys: pa.Array | pa.RecordBatch | None) -> bytes:
    if keys is None:
        return b""
    is_batch = isinstance(keys, pa.RecordBatch)
    batch = keys if is_batch else pa.RecordBatch.from_arrays([keys], [Page.KEY])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    result: bytes = sink.getvalue().to_pybytes()
    return result
