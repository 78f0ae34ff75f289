"""Every error has a code that docs/errors.md explains."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import keystate
import pytest
from keystate import errors
from keystate.errors import CODES, CheckpointError, KeystateError, StateAccessError, StateTypeError

CLASSES = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, KeystateError)
]
SOURCES = list(Path(keystate.__file__).parent.rglob("*.py"))
# As an argument, or in the message; not those of the JVM that docstrings tell of, nor variables of
# the environment.
RAISED = re.compile(r'(?<!environ\.get\()"\[?(KEYSTATE_[A-Z_]+)[\]"]')


@pytest.mark.parametrize("cls", CLASSES)
def test_every_class_has_a_code_that_is_explained(cls: type[KeystateError]) -> None:
    assert cls("what happened").code == cls.default_code
    assert cls.default_code in CODES
    assert cls is KeystateError or cls.default_code != KeystateError.default_code


def test_the_catalogue_says_which_codes_python_raises() -> None:
    defaults = {cls.default_code for cls in CLASSES}
    elsewhere = [path.read_text() for path in SOURCES if path.name != "errors.py"]
    assert defaults | {code for text in elsewhere for code in RAISED.findall(text)} == set(CODES)


def test_an_error_of_the_jvm_keeps_its_code() -> None:
    error = CheckpointError("[KEYSTATE_SAVEPOINT_EXISTS] /there exists")
    assert error.code == "KEYSTATE_SAVEPOINT_EXISTS"
    assert str(error) == "[KEYSTATE_SAVEPOINT_EXISTS] /there exists"


def test_a_code_of_its_own_and_a_way_through_a_pickle() -> None:
    error = pickle.loads(pickle.dumps(StateAccessError("late", code="KEYSTATE_NOT_IN_CALL")))
    assert (error.code, str(error)) == ("KEYSTATE_NOT_IN_CALL", "late")
    # Not the code in what a user's value looks like.
    assert StateTypeError("got '[KEYSTATE_FENCED]'").code == "KEYSTATE_STATE_TYPE"
