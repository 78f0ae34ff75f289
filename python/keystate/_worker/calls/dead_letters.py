"""Dead letters: what is written of a row that a function failed on, and how many there may be."""

from __future__ import annotations

import datetime
import hashlib
import json
import math
from collections.abc import Callable
from typing import Any

from pyspark.sql import types as T

from keystate._spec.protocol import Control
from keystate._spec.specs import resolve_schema
from keystate._types.codec import BeyondPython, NotGiven, shorten
from keystate._types.plain import to_json
from keystate._worker.calls.function_errors import message_of, traceback_of
from keystate._worker.contexts.row_context import RowContext
from keystate._worker.messages.columns import Timer
from keystate.errors import FunctionError, KeystateError, OutputTypeError, StateTypeError
from keystate.functions import TimeDomain
from keystate.functions.dead_letters import DeadLetters

#: Kinds of errors that a summary names.
_NAMED = 5


def is_of_row(error: Exception) -> bool:
    """Whether an error is the row's: neither Keystate's nor the machine's."""
    if isinstance(error, KeystateError):
        return isinstance(error, (OutputTypeError, StateTypeError))
    return not isinstance(error, MemoryError)


class DeadLetterWriter:
    """The dead letters of a subtask.

    Args:
        policy: what was declared.
        key_type: of the keys.
        row_types: of the rows of each input.
        count: counts them for a metric.
    """

    def __init__(
        self,
        policy: DeadLetters,
        key_type: T.StructType,
        row_types: list[T.StructType],
        count: Callable[[], None],
    ) -> None:
        self._policy = policy
        self._key_type: T.DataType = key_type
        if len(key_type.fields) == 1:
            self._key_type = key_type.fields[0].dataType
        self._row_types = row_types
        taken = resolve_schema(policy.tag.type, f"side output '{policy.tag.tag_id}'")
        self._as_json = isinstance(taken["row"].dataType, T.StringType)
        self._count = count
        self.begin_task({})

    def begin_task(self, control: dict[str, Any]) -> None:
        """Starts to count from 0 again."""
        self._calls = self._failed = self._in_a_row = 0
        self._errors: dict[str, list[Any]] = {}
        self._same: dict[bytes, int] = {}  # how many letters there were of equal rows
        self._batch: int | None = control.get(Control.BATCH_ID)
        if not control.get(Control.STREAMING):
            self._batch = None
        self._subtask = control.get(Control.SUBTASK, 0)

    def write(
        self,
        error: Exception,
        context: RowContext,
        keyed: bool,
        row: tuple[int, Any] | None,
        of_timer: Timer | None,
    ) -> list[Any]:
        """Writes the letter of the current row or timer; :meth:`result` makes a result of it.

        Args:
            error: what was raised.
            context: says what is being processed.
            keyed: whether there are keys.
            row: the index of its input, and the row as it came; of a timer ``None``.
            of_timer: the timer, if it is none of a row.
        """
        key = to_text(context.get_current_key(), self._key_type) if keyed else None
        value, source, timer, domain = None, None, None, None
        if row is not None:
            index, value = row
            if self._as_json:
                value = to_text(value, self._row_types[index])
            source = index + 1 if len(self._row_types) > 1 else None
        elif of_timer is not None:
            domain, timer = TimeDomain(of_timer[0]).name.lower(), of_timer[1]
        time = None
        if self._batch is not None:
            millis = context.current_processing_time()
            time = _EPOCH + datetime.timedelta(milliseconds=millis)
        said = (_name(error), message_of(error), traceback_of(error))
        return [key, value, source, timer, domain, *said, self._batch, time]

    def count(self, letter: list[Any], succeeded: int) -> None:
        """Counts a letter.

        Args:
            letter: what was written.
            succeeded: how many rows and timers there were since the last letter.

        Raises:
            FunctionError: there are more of them than may be.
        """
        self.succeeded(succeeded)
        self._calls += 1
        self._failed += 1
        self._in_a_row += 1
        key, _, _, _, _, name, message, trace, _, _ = letter
        kind = self._errors.setdefault(name, [0, key, message, trace])
        kind[0] += 1
        self._check("max_in_batch", self._policy.max_in_batch, self._failed, trace)
        self._check("max_in_a_row", self._policy.max_in_a_row, self._in_a_row, trace)
        self._count()

    def result(self, letter: list[Any]) -> tuple[Any, Any]:
        """A letter as a result."""
        return self._policy.tag, (f"{self._run(letter)}-{self._number(letter)}", *letter)

    def _run(self, letter: list[Any]) -> str:
        """Equal rows of one key, and equal rows of a stream without keys, are in one subtask.

        In a batch query without keys they may be in several.
        """
        if self._batch is not None:
            return str(self._batch)
        has_key = letter[0] is not None  # null is a text
        return "batch" if has_key else f"batch-{self._subtask}"

    def _number(self, letter: list[Any]) -> str:
        """Tells a letter from the others.

        By its row or timer, and those of equal ones by how many there were. So it is the same when
        the micro-batch is run again, whatever the order and the partitions.
        """
        content = hashlib.sha256(repr(letter[:5]).encode("utf-8", "surrogatepass")).digest()[:8]
        count = self._same[content] = self._same.get(content, 0) + 1
        return f"{content.hex()}-{count}"

    def succeeded(self, count: int) -> None:
        """Counts rows and timers that did not fail."""
        self._calls += count
        if count:
            self._in_a_row = 0

    def end_task(self) -> None:
        """Looks at the share.

        Raises:
            FunctionError: too many of the micro-batch's rows and timers failed.
        """
        share = self._policy.max_share
        if share is not None and self._failed > share * self._calls:
            raise self._too_many(f"of {self._calls}, more than max_share={share}", "")

    def _check(self, limit: str, most: int | None, count: int, trace: str) -> None:
        if most is not None and count > most:
            raise self._too_many(f"so far, more than {limit}={most}", trace)

    def _too_many(self, limit: str, trace: str) -> FunctionError:
        kinds = sorted(self._errors.items(), key=lambda kind: -kind[1][0])
        named = [
            f"{name} {count} times, first for key {key}: {shorten(message)}"
            for name, (count, key, message, _) in kinds[:_NAMED]
        ]
        if len(kinds) > _NAMED:
            named.append(f"and {len(kinds) - _NAMED} other kinds of errors")
        if not trace and kinds:
            trace = kinds[0][1][3]
        batch = "" if self._batch is None else f" in micro-batch {self._batch}"
        return FunctionError(
            f"{self._failed} rows and timers of subtask {self._subtask} failed{batch} {limit} of "
            f"on_error=dead_letters: {'; '.join(named)}\n{trace}",
            code="KEYSTATE_TOO_MANY_DEAD_LETTERS",
        )


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def _name(error: Exception) -> str:
    cls = type(error)
    inner = cls.__module__ in ("builtins", "__main__")
    return cls.__qualname__ if inner else f"{cls.__module__}.{cls.__qualname__}"


#: As ``from_json`` reads them.
_NO_NUMBERS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def to_text(value: Any, data_type: T.DataType) -> str:
    """A value as JSON that ``from_json`` reads."""
    return json.dumps(_json(value, data_type), ensure_ascii=False)


def _json(value: Any, data_type: T.DataType) -> Any:
    if value is None or type(value) is NotGiven:
        return None
    if isinstance(data_type, T.StructType):
        return {f.name: _json(part, f.dataType) for f, part in zip(data_type, value)}
    if isinstance(data_type, T.ArrayType):
        return [_json(part, data_type.elementType) for part in value]
    if isinstance(data_type, T.MapType):
        value = {key: _json(part, data_type.valueType) for key, part in value.items()}
    elif isinstance(value, BeyondPython):
        return value.text()
    elif isinstance(data_type, T.TimestampType):
        # An instant, whichever the zone of the session that reads it.
        return value.astimezone(datetime.timezone.utc).isoformat()
    elif isinstance(value, float) and not math.isfinite(value):
        return _NO_NUMBERS[str(value)]
    return to_json(value)
