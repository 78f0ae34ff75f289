"""Errors that Keystate raises in Python, each with a code that stays the same over releases.

Errors that a running query meets on the Spark side reach Python as ``pyspark.errors`` exceptions
whose message has a code in brackets, for instance ``[KEYSTATE_STATE_CHANGED]``. What means the same
on both sides has the same code.
"""

from __future__ import annotations

import re
from typing import ClassVar, NamedTuple

_LEADING_CODE = re.compile(r"\[(KEYSTATE_[A-Z_]+)\]")


class KeystateError(Exception):
    """Base of all errors that Keystate raises in Python.

    Attributes:
        code: what happened, for programs: one of :data:`CODES`, or the JVM's own code if the
            message came from there.
    """

    default_code: ClassVar[str] = "KEYSTATE_ERROR"

    def __init__(self, message: str = "", *, code: str | None = None) -> None:
        super().__init__(message)
        own = _LEADING_CODE.match(message)
        self.code: str = code or (own[1] if own else self.default_code)


class ConfigurationError(KeystateError):
    """The session, the Spark version or a setting is not what Keystate needs."""

    default_code = "KEYSTATE_CONFIGURATION"


class DeclarationError(KeystateError):
    """A function, a state or a schema was declared wrongly; found before the query starts."""

    default_code = "KEYSTATE_DECLARATION"


class CheckpointError(KeystateError):
    """An operation on a checkpoint is not possible; the checkpoint is as it was."""

    default_code = "KEYSTATE_CORRUPT_FILE"


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
    """A user's function raised; the message starts with its own traceback."""

    default_code = "KEYSTATE_FUNCTION_FAILED"


class Explained(NamedTuple):
    """A code in words."""

    meaning: str
    what_to_do: str


#: The codes that Python raises. Those of the JVM are in the messages of its errors.
CODES: dict[str, Explained] = {
    "KEYSTATE_BAD_SETTING": Explained(
        "a setting has a value that it can't have",
        "give it a value that the message permits",
    ),
    "KEYSTATE_CONFIGURATION": Explained(
        "the session is not what Keystate needs",
        "build it with keystate.configure(SparkSession.builder)",
    ),
    "KEYSTATE_CORRUPT_FILE": Explained(
        "a file of a checkpoint is not as it was written",
        "restore the file, or go on from an older checkpoint or a savepoint",
    ),
    "KEYSTATE_DECLARATION": Explained(
        "a function, a state or a schema is declared wrongly, or not where it has to be",
        "mend the declaration that the message names",
    ),
    "KEYSTATE_ERROR": Explained(
        "something else went wrong",
        "read the message",
    ),
    "KEYSTATE_EXTENSION_MISSING": Explained(
        "the running session is without Keystate's extension",
        "stop it, and build one with keystate.configure(SparkSession.builder)",
    ),
    "KEYSTATE_FUNCTION_FAILED": Explained(
        "your function raised an error",
        "look at its traceback, which the message begins with",
    ),
    "KEYSTATE_JAR_MISSING": Explained(
        "the package or the session is without Keystate's jar",
        "install a wheel, and build the session with keystate.configure(SparkSession.builder)",
    ),
    "KEYSTATE_MISSING_VERSION": Explained(
        "a version of the state is not kept any more",
        "ask for one of those that the message lists",
    ),
    "KEYSTATE_NOT_ANSWERED": Explained(
        "the executor could not answer a question for state",
        "look at the JVM's error in the message, and at the executor's log",
    ),
    "KEYSTATE_NOT_IN_CALL": Explained(
        "something was used outside of the call that it is for",
        "use it only in the method that the message names",
    ),
    "KEYSTATE_NO_CURRENT_KEY": Explained(
        "a state or a timer was used where no key is being processed",
        "use it in process_element and the like, not in open or after the call",
    ),
    "KEYSTATE_NO_SESSION": Explained(
        "there is no Spark session",
        "create one, or pass spark=",
    ),
    "KEYSTATE_NO_SUCH_STATE": Explained(
        "a checkpoint has no such state, or more than one",
        "choose by state= and operator= from those that the message lists",
    ),
    "KEYSTATE_NO_WATERMARK": Explained(
        "something goes by event time, and the input has no watermark",
        "call df.withWatermark(column, delay) before keystate.keyed(df, ...)",
    ),
    "KEYSTATE_NULL_KEY": Explained(
        "a map can't have the key None",
        "leave such entries out, or use another value for what has no key",
    ),
    "KEYSTATE_PICKLE_REFUSED": Explained(
        "an element of a function's list is a pickle of more than plain data",
        "return plain data, or permit its class by spark.keystate.pickle.allow",
    ),
    "KEYSTATE_PROTOCOL": Explained(
        "the Python package and the jar are of different releases",
        "install the same version of both, on the driver and on all executors",
    ),
    "KEYSTATE_PROVIDER_MISSING": Explained(
        "the session has another state store provider",
        "build it with keystate.configure(SparkSession.builder)",
    ),
    "KEYSTATE_RAW_STREAM": Explained(
        "a raw stream was begun twice, not at all, or for a key group of another subtask",
        "begin one stream for each of get_key_group_list(), then write",
    ),
    "KEYSTATE_RESERVED_NAME": Explained(
        "a state can't have this name",
        "choose one that is not empty, not 'default', and does not begin with '$' or a space",
    ),
    "KEYSTATE_RESULT_TYPE": Explained(
        "a result does not fit the output schema",
        "return what the schema says, or change the schema",
    ),
    "KEYSTATE_SPARK_CONNECT": Explained(
        "the session is one of Spark Connect",
        "use a classic session",
    ),
    "KEYSTATE_SPARK_VERSION": Explained(
        "the installed PySpark is not one that the jar was built for",
        "install the version that the message names",
    ),
    "KEYSTATE_STATE_CHANGED": Explained(
        "a state is not what it was in the checkpoint",
        "declare it as before, or give the new state another name",
    ),
    "KEYSTATE_STATE_TYPE": Explained(
        "a value does not fit the type of its state",
        "write a value of the declared type, or declare another one",
    ),
    "KEYSTATE_TASK_ENDED": Explained(
        "a worker was still at work when its task had ended, or its executor was gone",
        "nothing, if the task was cancelled; else look at the executor's log",
    ),
}
