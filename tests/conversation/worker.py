"""A worker process of simulated tasks: whatever it reads and writes goes over its pipes.

A frame is `[kind: 1 byte][int32 length][content]`, numbers are big-endian. The process sends what
happens: `I` (it waits for so many bytes of messages), `O` (bytes of answers), `C` (it connects to
the state server), `S` (a question), `R` (it waits for so many bytes of a reply), `X` (it hangs up),
`D` (the task is done), `E` (it failed). `I`, `C` and `R` wait for the other side, so that only one
of both is at work at a time. It gets `T` (a task), `b` (bytes), and `f`: the other end is gone.
"""

from __future__ import annotations

import io
import json
import os
import struct
import sys
import traceback
from collections.abc import Iterator
from typing import Any, BinaryIO

import keystate
import pyarrow as pa
from keystate._operators.schema_rows import SchemaRows
from keystate._operators.task import task_function
from keystate._worker import task
from keystate._worker.messages.state_client import StateClient
from keystate._worker.operators import keyed
from keystate.testing import rows_of
from pyspark.sql.pandas.serializers import ArrowStreamSerializer

from tests.conversation.faults import FAULTS
from tests.conversation.function import INPUT, OUTPUT, Scripted

_HEAD = struct.Struct(">ci")


class Pipes:
    """This process's ends of its pipes."""

    def __init__(self, source: BinaryIO, target: BinaryIO) -> None:
        self._source = source
        self._target = target

    def send(self, kind: bytes, content: bytes = b"") -> None:
        self._target.write(_HEAD.pack(kind, len(content)) + content)

    def wait(self) -> tuple[bytes, bytes]:
        """The next frame; of kind `f` if there is none."""
        self._target.flush()
        head = self._source.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return b"f", b""
        kind, length = _HEAD.unpack(head)
        return kind, self._source.read(length)

    def ask(self, kind: bytes, content: bytes = b"") -> bytes:
        """Sends a frame and waits for bytes."""
        self.send(kind, content)
        answer, found = self.wait()
        if answer != b"b":
            raise ConnectionResetError("the other end is gone")
        return found


class Messages(io.RawIOBase):
    """The stream of messages."""

    def __init__(self, pipes: Pipes) -> None:
        self._pipes = pipes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = self._pipes.ask(b"I", struct.pack(">i", len(buffer)))
        buffer[: len(found)] = found
        return len(found)


class Answers(io.RawIOBase):
    """The stream of answers."""

    def __init__(self, pipes: Pipes) -> None:
        self._pipes = pipes
        self.given_up = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if not self.given_up:
            self._pipes.send(b"O", bytes(data))
        return len(data)


class SideSocket:
    """A socket to the state server."""

    def __init__(self, pipes: Pipes) -> None:
        self._pipes = pipes

    def settimeout(self, seconds: float | None) -> None:
        pass

    def connect(self, peer: Any) -> None:
        if not self._pipes.ask(b"C"):
            raise ConnectionRefusedError("refused")

    def sendall(self, data: bytes) -> None:
        self._pipes.send(b"S", data)

    def recv(self, size: int) -> bytes:
        return self._pipes.ask(b"R", struct.pack(">i", size))

    def close(self) -> None:
        self._pipes.send(b"X")


def _declared() -> task.TaskFunction:
    made = keystate.keyed(rows_of(INPUT), "key").process(Scripted(), OUTPUT)
    assert isinstance(made, SchemaRows) and made.operator is not None
    return task_function(made.operator)


def _run(function: task.TaskFunction, pipes: Pipes, flush: int) -> None:
    """Runs a task as PySpark's worker does: one Arrow stream in, one out, each in a buffer."""
    serializer = ArrowStreamSerializer()
    messages = io.BufferedReader(Messages(pipes), 65536)
    target = Answers(pipes)
    answers = io.BufferedWriter(target, flush)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in serializer.load_stream(messages):
            yield pa.RecordBatch.from_struct_array(batch.column(0))

    made = (
        pa.RecordBatch.from_arrays([answer.to_struct_array()], ["_0"])
        for answer in function(batches())
    )
    try:
        serializer.dump_stream(made, answers)
        answers.flush()
    finally:
        target.given_up = True  # the buffer writes what it has left when it is let go


def main() -> None:
    pipes = Pipes(sys.stdin.buffer, os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)
    StateClient._new_socket = lambda self: SideSocket(pipes)
    function = _declared()
    spec = function.declared.spec
    types = {"rows": function.declared.rows, "keys": function.declared.keys}
    types["output"] = function.declared.output
    schemas = {name: kind.jsonValue() for name, kind in types.items()}
    pipes.send(b"D", json.dumps({"spec": spec.to_json(), **schemas}).encode())
    for fault in sys.argv[1:]:
        FAULTS[fault]()
    while True:
        kind, content = pipes.wait()
        if kind != b"T":
            return
        told = json.loads(content)
        if told["fresh"]:
            task._operators.clear()
        keyed._FIRST_SLOTS = told["slots"]
        Scripted.left = told["throws"]
        try:
            _run(function, pipes, told["flush"])
        except Exception:
            pipes.send(b"E", traceback.format_exc().encode())
        else:
            pipes.send(b"D")


if __name__ == "__main__":
    main()
