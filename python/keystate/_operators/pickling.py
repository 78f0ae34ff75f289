"""Pickles functions for the workers, or raises an error that names what can't be pickled."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from keystate._worker.calls.sent import SentFunction, is_broadcast
from keystate.errors import DeclarationError


def pickled(value: Any, function: Any) -> SentFunction:
    """A value that holds a user's function, pickled.

    Raises:
        DeclarationError: it can't be pickled; the message names the function and the part of it.
    """
    try:
        return SentFunction.of(value)
    except Exception as e:
        name = getattr(function, "__qualname__", type(function).__qualname__)
        part, error = _unpicklable(function, e)
        raise DeclarationError(
            f"{name} can't be sent to the workers: {part} can't be pickled: "
            f"{type(error).__name__}: {error}. Make such an object in open(), which runs in the "
            "worker, and not before"
        ) from e


def refuse_broadcasts(sent: SentFunction, function: Any, reason: str) -> None:
    """Raises DeclarationError if a function has broadcast variables."""
    if not sent.broadcasts:
        return
    part = next((name for name, value in _parts(function) if is_broadcast(value)), "it")
    raise DeclarationError(
        f"{part} of {type(function).__qualname__} is a broadcast variable, {reason}: give it the "
        "value itself, or load it in open()"
    )


def _unpicklable(function: Any, error: Exception) -> tuple[str, Exception]:
    """The first part of a function that can't be pickled, and why."""
    for part, value in _parts(function):
        try:
            SentFunction.of(value)
        except Exception as e:
            return f"{part} ({type(value).__name__})", e
    return "it", error


def _parts(function: Any) -> Iterator[tuple[str, Any]]:
    for name, value in getattr(function, "__dict__", {}).items():
        yield f"its attribute '{name}'", value
    code = getattr(function, "__func__", function)
    if inspect.isfunction(code):
        try:
            variables = inspect.getclosurevars(code)
        except ValueError:  # one has no value yet
            return
        for name, value in {**variables.nonlocals, **variables.globals}.items():
            yield f"the variable '{name}'", value
    if inspect.ismethod(function):
        yield "the object of the method", function.__self__
