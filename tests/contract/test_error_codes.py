"""Every error has a code that docs/errors.md explains."""

from __future__ import annotations

import ast
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
# Not those of the JVM that docstrings tell of, nor variables of the environment.
RAISED = re.compile(r'(?<!environ\.get\()"(KEYSTATE_[A-Z_]+)"')


@pytest.mark.parametrize("cls", CLASSES)
def test_every_class_has_a_code_that_is_explained(cls: type[KeystateError]) -> None:
    assert cls("what happened").code == cls.default_code
    assert cls.default_code in CODES


def calls(source: str) -> list[ast.Call]:
    """The calls of what is named as errors are."""
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [call for call in found if ast.unparse(call.func).endswith("Error")]


def test_a_code_is_given_as_an_argument_never_in_the_message() -> None:
    made = [call for path in SOURCES for call in calls(path.read_text())]
    assert len(made) > 200
    messages = [
        part.value
        for call in made
        for argument in call.args
        for part in ast.walk(argument)
        if isinstance(part, ast.Constant)
    ]
    assert [text for text in messages if "[KEYSTATE_" in str(text)] == []


def test_an_error_of_a_checkpoint_says_what_is_wrong_with_it() -> None:
    """It may be anything, so there is no code for those that give none."""
    named = [
        call
        for path in SOURCES
        for call in calls(path.read_text())
        if ast.unparse(call.func) == "CheckpointError"
    ]
    assert len(named) > 10
    assert all([keyword.arg for keyword in call.keywords] == ["code"] for call in named)


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
    assert (error.code, str(error)) == ("KEYSTATE_NOT_IN_CALL", "[KEYSTATE_NOT_IN_CALL] late")
    assert str(StateAccessError("late")) == "[KEYSTATE_NO_CURRENT_KEY] late"
    # Not the code in what a user's value looks like.
    assert StateTypeError("got '[KEYSTATE_FENCED]'").code == "KEYSTATE_STATE_TYPE"
