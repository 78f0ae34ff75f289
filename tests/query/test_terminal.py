"""What a terminal shows when a function fails: the user's lines, early, and little else."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import keystate
import pyspark
import pytest

from tests.query import failing_query

ROOT = Path(__file__).parents[2]
QUERY = Path(failing_query.__file__)
PAGE = ROOT / "docs" / "debugging.md"

#: With the frames of Spark and Keystate, and its stacks in the JVM, these were 383 lines.
MOST_LINES = 62


#: Spark 4.1 tells an error of a worker five times, in the words of its causes.
REPEATS = pyspark.__version__.startswith("4.1.")


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The lines of a terminal from the first error on."""
    folder = tmp_path_factory.mktemp("failing")
    (folder / "in").mkdir()
    (folder / "in" / "a.json").write_text('{"user": 7, "kind": "b"}')
    run = subprocess.run(
        [sys.executable, str(QUERY), str(folder)], capture_output=True, text=True, cwd=ROOT
    )
    assert run.returncode == 1
    return run.stderr[run.stderr.index(" ERROR ") :].splitlines()


def blanked(text: str) -> str:
    """Without what differs between runs, machines and versions of Python."""
    lines = [line for line in text.splitlines() if not re.fullmatch(r"\s*[~^]+", line)]
    text = re.sub(r'File "(?:.*/)?([^/"\n]*)", line \d+', r'File "\1", line 0', "\n".join(lines))
    return re.sub(r"= [0-9a-f-]{36}", "= ...", text)


@pytest.mark.spark
@pytest.mark.skipif(REPEATS, reason="Spark 4.1 tells an error more often")
def test_the_terminal_shows_what_the_page_says(shown: list[str]) -> None:
    page = PAGE.read_text()
    told = page[page.index("```text\nTraceback") :].removeprefix("```text\n")
    told = told[: told.index("\n...")]
    terminal = "\n".join(shown[shown.index("Traceback (most recent call last):") :])
    frames = r'  File ".*site-packages(?:.*\n)(?:    .*\n)+'
    terminal = re.sub(frames, "", terminal)
    assert blanked(terminal).startswith(blanked(re.sub(frames, "", told)))


@pytest.mark.spark
def test_the_users_line_is_among_the_first_and_little_else(shown: list[str]) -> None:
    users = [at for at, line in enumerate(shown) if "return {" in line]
    assert users[0] < 15
    if REPEATS:
        return
    assert len(users) == 2  # once in Spark's log, once in the exception
    assert "failing_query.py, line" in shown[1]
    assert len(shown) <= MOST_LINES
    text = "\n".join(shown)
    assert "_worker" not in text and "\tat " not in text


@pytest.mark.spark
def test_the_error_is_there_as_an_object(shown: list[str]) -> None:
    text = "\n".join(shown)
    spark_s = Exception(text[text.rindex("[STREAM_FAILED]") :])
    error = keystate.FunctionError.of(spark_s)
    assert error is not None and error.__cause__ is spark_s
    assert (error.error, error.key, error.row, error.timer) == (
        "KeyError: 'b'",
        "7",
        "Row(user=7, kind='b')",
        None,
    )
    assert error.traceback is not None and "in score" in error.traceback
    assert keystate.OutputTypeError.of(spark_s) is None
