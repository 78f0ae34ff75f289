"""Errors of the user's code as Keystate reports them."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType

from keystate.errors import FunctionError

_PACKAGE = str(Path(__file__).parents[2])
_MAX_TEXT = 20_000  # characters of an error's message, and of its traceback


def function_error(error: BaseException, where: str) -> FunctionError:
    """An error of the user's code as Keystate reports it: with its own traceback first."""
    said = f"{type(error).__name__}: {message_of(error)}"
    return FunctionError(f"{said}\n{traceback_of(error)}{where}")


def message_of(error: BaseException) -> str:
    """An error's message; of a very long one beginning and end."""
    return _bounded(str(error))


def traceback_of(error: BaseException) -> str:
    """An error's traceback, from the user's first frame on."""
    frames = traceback.format_exception(type(error), error, _own_frames(error))
    return _bounded("".join(frames))


def _bounded(text: str) -> str:
    """Beginning and end of a text: Spark sends and logs it several times over."""
    left_out = len(text) - _MAX_TEXT
    if left_out <= 0:
        return text
    half = _MAX_TEXT // 2
    return f"{text[:half]}\n... {left_out:,} characters are left out here ...\n{text[-half:]}"


def _own_frames(error: BaseException) -> TracebackType | None:
    """The traceback from the user's first frame on."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        frames = frames.tb_next
    return frames or error.__traceback__
