"""The names that Python and the JVM use when they talk, each of them once.

``docs/protocol.md`` says what they mean, ``Protocol.scala`` has the JVM's side; a test compares the
three. The names are what goes over the wire: to change one is to change :data:`VERSION`.
"""

from __future__ import annotations

from typing import Any, Final

from keystate.errors import KeystateError

#: The protocol's version. The JVM says its own in a task's first message.
VERSION: Final = 4


class Message:
    """Columns of a message to the worker."""

    MESSAGE: Final = "message"
    CONTROL: Final = "control"
    ROWS: Final = "rows"
    KEY_INDEXES: Final = "key_indexes"
    SECOND_ROWS: Final = "second_rows"
    INPUTS: Final = "inputs"
    KEYS: Final = "keys"
    CARRIED: Final = "carried"
    TIMER_KEY_INDEXES: Final = "timer_key_indexes"
    TIMER_DOMAINS: Final = "timer_domains"
    TIMER_TIMES: Final = "timer_times"
    TIMER_WINDOW_ENDS: Final = "timer_window_ends"
    TIMER_WINDOW_STARTS: Final = "timer_window_starts"
    BROADCAST: Final = "broadcast"
    PACKED: Final = "packed"


class Answer:
    """Columns of an answer of the worker."""

    CACHE_EPOCH: Final = "cache_epoch"
    UNTIL: Final = "until"
    OUT: Final = "out"
    LAST: Final = "last"
    TIMER_KEY_INDEX: Final = "timer_key_index"
    TIMER_DOMAIN: Final = "timer_domain"
    TIMER_TIME: Final = "timer_time"
    TIMER_SET: Final = "timer_set"
    TIMER_WINDOW_END: Final = "timer_window_end"
    TIMER_WINDOW_START: Final = "timer_window_start"
    OPERATOR_TAG: Final = "operator_tag"
    OPERATOR_STATE: Final = "operator_state"
    RAW_GROUPS: Final = "raw_groups"
    RAW_STREAMS: Final = "raw_streams"
    METRICS: Final = "metrics"
    PACKED: Final = "packed"


class Metrics:
    """Keys of the metrics column's JSON: how the values of several subtasks become one."""

    SUM: Final = "sum"
    MIN: Final = "min"
    MAX: Final = "max"


#: The numbers of the clocks of timers.
EVENT_TIME: Final = 0
PROCESSING_TIME: Final = 1


#: The names of the states with what windows hold: accumulators, those of merged windows, and rows.
WINDOW_CONTENTS: Final = ("window-contents", "session-contents", "window-elements")


class Part:
    """What follows the state's number in the name of its columns."""

    KEY_INDEX: Final = "key_index"
    RESET: Final = "reset"
    KEYS: Final = "k"
    VALUES: Final = "v"
    REMOVED: Final = "d"
    USED_KEY_INDEX: Final = "used_key_index"
    USED_TIME: Final = "used_time"
    USED_WHOLE: Final = "used_whole"
    USED_KEYS: Final = "used_k"


def state_column(index: int, part: str = "") -> str:
    """The column of a keyed state: ``s0``, or ``s0_key_index`` for a part of it."""
    return f"s{index}_{part}" if part else f"s{index}"


def broadcast_column(index: int, part: str) -> str:
    """The column of a broadcast state, as ``b0_k``."""
    return f"b{index}_{part}"


class Control:
    """Keys of a message's control."""

    PROTOCOL: Final = "protocol"
    CACHE_EPOCH: Final = "cache_epoch"
    SUBTASK: Final = "subtask"
    PARALLELISM: Final = "parallelism"
    MAX_PARALLELISM: Final = "max_parallelism"
    ATTEMPT: Final = "attempt"
    STREAMING: Final = "streaming"
    BATCH_ID: Final = "batch_id"
    QUERY_RUN: Final = "query_run"
    WATERMARK: Final = "watermark"
    LATE_WATERMARK: Final = "late_watermark"
    PROCESSING_TIME: Final = "processing_time"
    REAL_TIME: Final = "real_time"
    TIMERS_SENT: Final = "timers_sent"
    TIMERS_LEFT: Final = "timers_left"
    EVENT_TIME_COLUMN: Final = "event_time_column"
    SECOND_EVENT_TIME_COLUMN: Final = "second_event_time_column"
    SERVER: Final = "server"
    SECRET: Final = "secret"
    OPERATOR_TAG: Final = "operator_tag"
    BROADCAST_TAG: Final = "broadcast_tag"
    NEW_TAG: Final = "new_tag"


class Server:
    """Keys of the control's ``server``."""

    PATH: Final = "path"
    HOST: Final = "host"
    PORT: Final = "port"


class Op:
    """What a question asks for: the values of its ``op``."""

    GET: Final = "get"
    SCAN: Final = "scan"
    BROADCAST: Final = "broadcast"
    KEYS: Final = "keys"
    CHANGES: Final = "changes"
    TIMERS: Final = "timers"
    OPERATOR_STATE: Final = "operator_state"
    RAW_KEYED: Final = "raw_keyed"


class Question:
    """Keys of a question."""

    OP: Final = "op"
    CACHE_EPOCH: Final = "cache_epoch"
    STATE: Final = "state"
    KEY_INDEX: Final = "key_index"
    BOUNDS: Final = "bounds"
    FROM: Final = "from"
    LIMIT: Final = "limit"
    REVERSE: Final = "reverse"
    UNIONS: Final = "unions"


class Bound:
    """Values in a question's ``bounds``."""

    START: Final = "start"
    END: Final = "end"


class Reply:
    """Keys of the JVM's reply to a question."""

    ERROR: Final = "error"
    NEXT: Final = "next"
    READ: Final = "read"
    STATE: Final = "state"
    UNIONS: Final = "unions"
    GROUP: Final = "group"


class Page:
    """Columns of the keys in a question, and of the entries in a reply."""

    KEY: Final = "key"
    VALUE: Final = "value"


class OperatorFields:
    """Fields of the JSON that declares an operator, from Python to the jar."""

    NAME: Final = "name"
    MAX_PARALLELISM: Final = "max_parallelism"
    TIME_MODE: Final = "time_mode"
    TIMERS: Final = "timers"
    STATES: Final = "states"
    BROADCAST: Final = "broadcast"
    CHECKPOINTED: Final = "checkpointed"
    RAW_KEYED: Final = "raw_keyed"
    OPERATOR_STATES: Final = "operator_states"
    SIDE_OUTPUTS: Final = "side_outputs"
    METRICS: Final = "metrics"
    LATE_OUTPUTS: Final = "late_outputs"
    TAKES_LATE_ROWS: Final = "takes_late_rows"
    TAKES_COLUMNS: Final = "takes_columns"
    WINDOWS: Final = "windows"


class StateFields:
    """Fields of one of its states."""

    NAME: Final = "name"
    KIND: Final = "kind"
    DESCRIPTOR: Final = "descriptor"
    VALUE_TYPE: Final = "value_type"
    KEY_TYPE: Final = "key_type"
    ORDER: Final = "order"
    TTL: Final = "ttl"
    MAX_ENTRIES: Final = "max_entries"


class TtlFields:
    """Fields of a state's time to live."""

    MILLIS: Final = "millis"
    EVENT_TIME: Final = "event_time"
    UPDATED_ON_READ: Final = "updated_on_read"
    RETURN_EXPIRED: Final = "return_expired"
    SWEEP_SIZE: Final = "sweep_size"
    SWEEP_ON_RECORDS: Final = "sweep_on_records"
    DROP_ON_MERGE: Final = "drop_on_merge"


def check_version(control: dict[str, Any]) -> None:
    """Raises KeystateError when a task's first message is not of this protocol."""
    version = control.get(Control.PROTOCOL)
    if version != VERSION:
        theirs = "no protocol version" if version is None else f"protocol version {version}"
        raise KeystateError(
            f"the jar speaks {theirs}, and this Python worker version "
            f"{VERSION}: the Python package and the jar are of different releases: install the "
            "same version of both",
            code="KEYSTATE_PROTOCOL",
        )
