"""A subtask, as functions are told of it."""

from __future__ import annotations

from typing import NamedTuple


class Subtask(NamedTuple):
    """One of an operator's subtasks.

    Attributes:
        name: the operator's.
        parallelism: how many subtasks there are.
        max_parallelism: how many there can be.
        number: which one it is, from 0.
        attempt: how often its task had been tried before.
    """

    name: str
    parallelism: int = 1
    max_parallelism: int = 1
    number: int = 0
    attempt: int = 0
