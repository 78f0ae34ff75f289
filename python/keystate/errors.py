"""Errors that Keystate raises in Python, each with a code that stays the same over releases.

The message begins with the code in brackets, for instance ``[KEYSTATE_STATE_CHANGED]``. Errors that
a running query meets on the Spark side reach Python as ``pyspark.errors`` exceptions whose message
has it too. What means the same on both sides has the same code.
"""

from __future__ import annotations

import json
import pkgutil
import re
from typing import ClassVar

_CODE = re.compile(r"\[(KEYSTATE_[A-Z_]+)\]")


def code_in(message: str) -> str | None:
    """Keystate's first code in the message of any error, such as one of Spark's; None without."""
    found = _CODE.search(message)
    return found[1] if found else None


class KeystateError(Exception):
    """Base of all errors that Keystate raises in Python.

    Attributes:
        code: what happened, for programs: one of :data:`CODES`, or the JVM's own code if the
            message came from there.
    """

    default_code: ClassVar[str] = "KEYSTATE_ERROR"

    def __init__(self, message: str = "", *, code: str | None = None) -> None:
        # A message that came from the JVM has its code, and so has that of an unpickled error.
        own = None if code else _CODE.match(message)
        self.code: str = own[1] if own else code or self.default_code
        super().__init__(message if own else f"[{self.code}] {message}")


class ConfigurationError(KeystateError):
    """The session, the Spark version or a setting is not what Keystate needs."""

    default_code = "KEYSTATE_CONFIGURATION"


class DeclarationError(KeystateError):
    """A function, a state or a schema was declared wrongly; found before the query starts."""

    default_code = "KEYSTATE_DECLARATION"


class CheckpointError(KeystateError):
    """An operation on a checkpoint is not possible; the checkpoint is as it was."""


#: The code of :class:`StorageError`.
STORAGE = "KEYSTATE_STORAGE"


class StorageError(CheckpointError, OSError):
    """The disk or the object store refused to read or write a file of a checkpoint."""

    default_code = STORAGE


class StateAccessError(KeystateError):
    """A state was used where no key is being processed."""

    default_code = "KEYSTATE_NO_CURRENT_KEY"


class StateTypeError(KeystateError, TypeError):
    """A value does not fit the declared type of its state."""

    default_code = "KEYSTATE_STATE_TYPE"


class OutputTypeError(KeystateError, TypeError):
    """A result does not fit the declared output schema."""

    default_code = "KEYSTATE_RESULT_TYPE"


class FunctionError(KeystateError):
    """A user's function raised; the message has its own traceback first."""

    default_code = "KEYSTATE_FUNCTION_FAILED"


#: The codes that Python raises; docs/errors.md says what they and those of the JVM mean.
CODES: frozenset[str] = frozenset(
    code
    for code, facts in json.loads(pkgutil.get_data("keystate", "errors.json") or "{}").items()
    if "python" in facts["raisedBy"]
)
