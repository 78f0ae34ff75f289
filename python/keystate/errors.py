"""Errors that Keystate raises in Python, each with a code that stays the same over releases.

The message begins with the code in brackets, for instance ``[KEYSTATE_STATE_CHANGED]``. Errors that
a running query meets on the Spark side reach Python as ``pyspark.errors`` exceptions whose message
has it too. What means the same on both sides has the same code.
"""

from __future__ import annotations

import json
import pkgutil
import re
from typing import Any, ClassVar, TypeVar

_CODE = re.compile(r"\[(KEYSTATE_[A-Z_]+)\]")
#: An error's class and message in one of Spark's, up to what Spark puts behind it.
_IN_SPARKS = re.compile(
    r"(?:(\w+): )?(\[KEYSTATE_[A-Z_]+\].*?)"
    r"(?=\s+SQLSTATE: |\n=== Streaming Query ===|\n+Driver stacktrace:|\s*\Z)",
    re.DOTALL,
)
_TRACEBACK = re.compile(r"^Traceback .*?(?=^while processing |\Z)", re.MULTILINE | re.DOTALL)
_STATE = re.compile(r"state '([^'\n]*)'(?: of key (.*?))?: ")
_WHILE = re.compile(
    r"while processing (?:key (?P<key>.*?))?(?:, )?"
    r"(?:timer (?P<timer>-?\d+)|row (?P<row>.*?))?(?:, does not fit .*)?$",
    re.MULTILINE,
)
_E = TypeVar("_E", bound="KeystateError")


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

    @classmethod
    def of(cls: type[_E], failed: Any) -> _E | None:
        """The error of this class, or of one derived from it, that a query has failed with.

        >>> error = keystate.FunctionError.of(query)

        Args:
            failed: a query, or the exception that it raised.

        Returns:
            Its ``__cause__`` is Spark's exception. None if the query has not failed, or with
            another error.
        """
        error = failed if isinstance(failed, BaseException) else failed.exception()
        found = None if error is None else _IN_SPARKS.search(str(error))
        if found is None:
            return None
        kind = _by_name(KeystateError).get(found[1], KeystateError)
        if not issubclass(kind, cls):
            return None
        made = kind(found[2])
        made.__cause__ = error
        return made


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


class _OfFunction(KeystateError):
    """An error in a call of a user's function: its facts, as they are in the message.

    Each is None if the message does not have it. Keys and rows are as ``repr`` shows them; those of
    great length are shortened.
    """

    @property
    def traceback(self) -> str | None:
        """The traceback, with the lines of your code."""
        found = _TRACEBACK.search(str(self))
        return found[0] if found else None

    @property
    def state(self) -> str | None:
        """The state's name."""
        found = _STATE.search(str(self))
        return found[1] if found else None

    @property
    def key(self) -> str | None:
        """The key that was processed."""
        found = _STATE.search(str(self).partition("\n")[0])
        return found[2] if found else self._processed("key")

    @property
    def row(self) -> str | None:
        """The row that was processed."""
        return self._processed("row")

    @property
    def timer(self) -> int | None:
        """The time of the timer that fired."""
        time = self._processed("timer")
        return None if time is None else int(time)

    def _processed(self, what: str) -> str | None:
        *_, last = (None, *_WHILE.finditer(str(self)))
        return last[what] if last else None


class StateTypeError(_OfFunction, TypeError):
    """A value does not fit the declared type of its state."""

    default_code = "KEYSTATE_STATE_TYPE"


class OutputTypeError(_OfFunction, TypeError):
    """A result does not fit the declared output schema."""

    default_code = "KEYSTATE_RESULT_TYPE"


class FunctionError(_OfFunction):
    """A user's function raised; the message has its own traceback first."""

    default_code = "KEYSTATE_FUNCTION_FAILED"

    @property
    def error(self) -> str:
        """What your function raised, as in ``KeyError: 'missing'``."""
        return str(self).partition("\n")[0].removeprefix(f"[{self.code}] ")


def _by_name(of: type[KeystateError]) -> dict[str, type[KeystateError]]:
    """The class and those derived from it."""
    found = {of.__name__: of}
    for derived in of.__subclasses__():
        found |= _by_name(derived)
    return found


#: The codes that Python raises; docs/errors.md says what they and those of the JVM mean.
CODES: frozenset[str] = frozenset(
    code
    for code, facts in json.loads(pkgutil.get_data("keystate", "errors.json") or "{}").items()
    if "python" in facts["raisedBy"]
)
