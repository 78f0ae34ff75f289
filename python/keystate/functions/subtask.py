"""The description of a subtask that functions get."""

from __future__ import annotations

from typing import NamedTuple


class Subtask(NamedTuple):
    """One of an operator's subtasks.

    Attributes:
        name: the operator's name.
        parallelism: the number of subtasks.
        max_parallelism: the greatest number of subtasks.
        number: the subtask's number, from 0.
        attempt: the attempt number of its task, from 0.
    """

    name: str
    parallelism: int = 1
    max_parallelism: int = 1
    number: int = 0
    attempt: int = 0
