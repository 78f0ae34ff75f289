"""Errors of the user's code as Keystate reports them."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

from keystate.errors import FunctionError, KeystateError

_PACKAGE = str(Path(__file__).parents[2])
_MAX_TEXT = 20_000  # characters of an error's message, and of its traceback
_HEADER = "Traceback (most recent call last):"
# Spark makes frames of what follows Python's own header, and a terminal shows all twice.
_OWN_HEADER = "Traceback of your function (most recent call last):"


def function_error(error: BaseException, where: str) -> FunctionError:
    """An error of the user's code as Keystate reports it: with its own traceback first."""
    said = f"{type(error).__name__}: {message_of(error)}"
    return FunctionError(f"{said}\n{traceback_of(error)}{where}")


def as_sent(error: KeystateError) -> KeystateError:
    """An error as Spark gets it from a worker: with the lines of the user's code in its message."""
    if isinstance(error, FunctionError):
        return FunctionError(str(error).replace(_HEADER, _OWN_HEADER))
    lines = _lines(traceback.TracebackException.from_exception(error))
    if not lines:
        yielded = getattr(error, "yielded_at", [])
        lines = traceback.StackSummary.from_list(traceback.FrameSummary(*at) for at in yielded)
    if not lines:
        return error
    text = _bounded("".join(lines.format()).rstrip("\n"))
    return type(error)(f"{error}\n{_OWN_HEADER}\n{text}")


def message_of(error: BaseException) -> str:
    """An error's message; of a very long one beginning and end."""
    return _bounded(str(error))


def traceback_of(error: BaseException) -> str:
    """An error's traceback with the frames of the user's code and what that calls."""
    told = traceback.TracebackException.from_exception(error)
    _cut(told)
    return _bounded("".join(told.format()))


def _bounded(text: str) -> str:
    """Beginning and end of a text: Spark sends and logs it several times over."""
    left_out = len(text) - _MAX_TEXT
    if left_out <= 0:
        return text
    half = _MAX_TEXT // 2
    return f"{text[:half]}\n... {left_out:,} characters are left out here ...\n{text[-half:]}"


def _cut(told: Any) -> None:
    """Takes Keystate's frames from a traceback and from those of its causes, if others are left."""
    told.stack = _lines(told) or told.stack
    for cause in (told.__cause__, told.__context__, *(getattr(told, "exceptions", None) or ())):
        if cause is not None:
            _cut(cause)


def _lines(told: traceback.TracebackException) -> traceback.StackSummary:
    own = (frame for frame in told.stack if not frame.filename.startswith(_PACKAGE))
    return traceback.StackSummary.from_list(own)
