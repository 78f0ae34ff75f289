"""Errors that Keystate raises in Python.

Errors that a running query meets on the Spark side reach Python as ``pyspark.errors`` exceptions
whose message has a code in brackets, for instance ``[KEYSTATE_STATE_CHANGED]``.
"""

from __future__ import annotations


class KeystateError(Exception):
    """Base of all errors that Keystate raises in Python."""


class ConfigurationError(KeystateError):
    """The session, the Spark version or a setting is not what Keystate needs."""


class DeclarationError(KeystateError):
    """A function, a state or a schema was declared wrongly; found before the query starts."""


class CheckpointError(KeystateError):
    """An operation on a checkpoint is not possible; the checkpoint is as it was."""


class StateAccessError(KeystateError):
    """A state was used where no key is being processed."""


class StateTypeError(KeystateError, TypeError):
    """A value does not fit the declared type of its state."""


class OutputTypeError(KeystateError, TypeError):
    """A result does not fit the declared output schema."""


class FunctionError(KeystateError):
    """A user's function raised; the message starts with its own traceback."""
