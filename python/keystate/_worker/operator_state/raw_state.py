"""Raw state: byte streams that a function writes with a snapshot and reads when it is restored."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

from keystate.errors import DeclarationError, StateAccessError

#: The raw operator streams' name among an instance's lists; each is an element.
RAW = "$raw"


class RawOutput:
    """The streams of a subtask, one after the other, each dealt out as an element of a list."""

    def __init__(self) -> None:
        self._streams: list[bytearray] = []

    def start_new_partition(self) -> None:
        """Begins another stream."""
        self._streams.append(bytearray())

    def write(self, data: bytes) -> int:
        """Appends to the newest stream; the first stream begins without a call."""
        if not self._streams:
            self.start_new_partition()
        self._streams[-1] += data
        return len(data)

    def encode(self) -> list[str]:
        """The streams as elements of a list."""
        return [base64.b64encode(stream).decode() for stream in self._streams]


class RawKeyedOutput:
    """The streams of a subtask's key groups."""

    def __init__(self, groups: range) -> None:
        self._groups = groups
        self._current: bytearray | None = None
        self.streams: dict[int, bytearray] = {}

    def get_key_group_list(self) -> range:
        """The key groups of this subtask."""
        return self._groups

    def start_new_key_group(self, key_group: int) -> None:
        """Begins a key group's stream."""
        if key_group not in self._groups:
            raise StateAccessError(
                f"key group {key_group} is not of this subtask, which has "
                f"{self._groups.start} to {self._groups.stop - 1}",
                code="KEYSTATE_RAW_STREAM",
            )
        if key_group in self.streams:
            raise StateAccessError(
                f"the stream of key group {key_group} was begun already", code="KEYSTATE_RAW_STREAM"
            )
        self._current = self.streams[key_group] = bytearray()

    def write(self, data: bytes) -> int:
        """Appends to the newest stream."""
        if self._current is None:
            raise StateAccessError(
                "call start_new_key_group() before write()", code="KEYSTATE_RAW_STREAM"
            )
        self._current += data
        return len(data)


class RawInput:
    """One stream that is restored."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def get_stream(self) -> BinaryIO:
        """The stream, from its beginning."""
        return io.BytesIO(self._data)


class RawKeyedInput(RawInput):
    """One key group's stream that is restored."""

    def __init__(self, key_group: int, data: bytes) -> None:
        super().__init__(data)
        self._key_group = key_group

    def get_key_group_id(self) -> int:
        """The key group."""
        return self._key_group


class RawKeyedState:
    """The raw keyed state of one instance.

    Args:
        groups: the subtask's key groups.
        restored: gives group and content of each stream that it is restored with.
    """

    def __init__(self, groups: range, restored: Callable[[], Iterable[tuple[int, bytes]]]) -> None:
        self._groups = groups
        self._restored: Callable[[], Iterable[tuple[int, bytes]]] | None = restored
        self._output: RawKeyedOutput | None = None

    def inputs(self) -> Iterator[RawKeyedInput]:
        """The streams that it is restored with, by ascending group."""
        for group, data in self._restored() if self._restored is not None else ():
            yield RawKeyedInput(group, data)
            if self._restored is None:
                break
        if self._restored is None:
            raise StateAccessError(
                "raw state can only be read in initialize_state()", code="KEYSTATE_NOT_IN_CALL"
            )

    def end_restore(self) -> None:
        """Its task's side channel will be another one from now on."""
        self._restored = None

    def output(self) -> RawKeyedOutput:
        """Takes the streams of a snapshot."""
        if self._output is None:
            self._output = RawKeyedOutput(self._groups)
        return self._output

    def take(self) -> dict[int, bytearray]:
        """The streams that a snapshot wrote, by group."""
        streams = {} if self._output is None else self._output.streams
        self._output = None
        return streams


def decode_raw(encoded: Iterable[str]) -> list[RawInput]:
    """The raw operator streams of a list."""
    return [RawInput(base64.b64decode(stream)) for stream in encoded]


def no_keys() -> DeclarationError:
    """Raised where raw keyed state is asked for and there are no keys."""
    return DeclarationError(
        "raw keyed state needs a key: use keystate.keyed(df, ...), or raw operator state"
    )
