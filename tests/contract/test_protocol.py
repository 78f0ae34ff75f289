"""Worker, JVM and ``docs/protocol.md`` name what goes over the wire alike."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import keystate
import pyarrow as pa
import pytest
from keystate import KeystateError
from keystate._spec import protocol as protocol
from keystate._spec.protocol import VERSION, Control, Part, broadcast_column, state_column
from keystate._worker.task import TaskFunction
from keystate.state.kinds import StateKind
from keystate.testing import KeyedProcessHarness

ROOT = Path(__file__).resolve().parents[2]
SCALA = ROOT / "jvm/src/main/scala/org/apache/spark/sql/keystate/spec/Protocol.scala"
PAGE = (ROOT / "docs/protocol.md").read_text()

GROUPS = [
    value
    for value in vars(protocol).values()
    if isinstance(value, type) and value.__module__ == protocol.__name__
]


def names(group: type) -> set[str]:
    return {value for key, value in vars(group).items() if key.isupper()}


def documented(heading: str) -> set[str]:
    """The first column of the table below a heading that names a group."""
    sections = re.split(r"^#+ (.*)$", PAGE, flags=re.M)
    found = [text for title, text in zip(sections[1::2], sections[2::2]) if heading in title]
    rows = [row for text in found for row in re.findall(r"^\| `([^`]+)` \|", text, flags=re.M)]
    assert len(set(rows)) == len(rows), rows
    # The head of a table may be a name as well.
    heads = re.findall(r"^\| `([^`]+)` \|.*\n\|---", "".join(found), flags=re.M)
    return set(rows) - set(heads)


@pytest.mark.parametrize("group", [group for group in GROUPS if group is not Part])
def test_the_page_has_the_names_of(group: type) -> None:
    assert documented(f"(`{group.__name__}`)") == names(group)


def test_the_page_has_the_columns_of_states() -> None:
    keyed = {state_column(0), *(state_column(0, part) for part in names(Part))}
    assert documented("Columns of keyed states") == keyed
    parts = (Part.RESET, Part.KEYS, Part.VALUES, Part.REMOVED)
    broadcast = {broadcast_column(0, part) for part in parts}
    assert documented("Columns of broadcast states") == broadcast


def test_the_page_has_the_version_and_a_section_for_every_group() -> None:
    assert f"The protocol has a version, now {VERSION}." in PAGE
    headed = set(re.findall(r"^#.*\(`(\w+)`\)$", PAGE, flags=re.M))
    assert headed == {group.__name__ for group in GROUPS}


def test_the_jvm_has_the_same_names() -> None:
    source = SCALA.read_text()
    assert re.findall(r"\bVersion = (\d+)", source) == [str(VERSION)]
    groups = re.findall(r"\n  object (\w+) \{\n(.*?)\n  \}", source, flags=re.S)
    theirs = {group: dict(re.findall(r'final val (\w+) = "(\w+)"', body)) for group, body in groups}
    ours = {
        group.__name__: {
            key.title().replace("_", ""): value
            for key, value in vars(group).items()
            if key.isupper()
        }
        for group in GROUPS
    }
    assert theirs == ours


def test_names_are_written_nowhere_else() -> None:
    """Names that mean nothing else: as literals they are in ``_protocol.py`` only."""
    only = names(protocol.Message) | names(protocol.Answer) | names(protocol.Control)
    # Settings of the harness and words that are also something else.
    only -= {"message", "rows", "keys", "broadcast", "last", "max_parallelism", "state", "batch_id"}
    only -= {"watermark", "processing_time", "parallelism"}
    package = Path(keystate.__file__).parent
    for path in [*package.glob("_worker/**/*.py"), *package.glob("testing/*.py")]:
        found = set(re.findall(r'"(\w+)"', path.read_text())) & only
        assert not found, f"{path.name}: {found}"


def test_kinds_of_state_have_the_same_names_in_both_languages() -> None:
    source = SCALA.with_name("StateSpec.scala").read_text()
    theirs = re.findall(r'case object \w+ extends StateKind\("(\w+)"', source)
    theirs += re.findall(r'val Broadcast = "(\w+)"', source)
    kept_by_keystate = {"operator_list", "raw_keyed", "timers", "window_timers", "broadcast_tag"}
    assert {kind.value for kind in StateKind} - kept_by_keystate == set(theirs)


class Emits(keystate.KeyedProcessFunction):
    def process_element(self, row: Any, ctx: Any) -> Any:
        yield row


@pytest.mark.parametrize("version", [None, 0, VERSION + 1, str(VERSION)])
def test_another_version_is_refused_before_anything_else(version: Any) -> None:
    said = "" if version is None else f'"{Control.PROTOCOL}": {version!r}'.replace("'", '"')
    message = pa.RecordBatch.from_pydict({"control": [f"{{{said}}}".encode()]})
    task = TaskFunction("token", b"no pickle", None)  # type: ignore[arg-type]
    with pytest.raises(KeystateError, match="install the same version of both") as error:
        list(task(iter([message])))
    assert error.value.code == "KEYSTATE_PROTOCOL"
    assert str(error.value).startswith("[KEYSTATE_PROTOCOL]")
    assert f"version {VERSION}:" in str(error.value)


def test_the_harness_speaks_this_version(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, Any]] = []
    opened = TaskFunction.open
    monkeypatch.setattr(TaskFunction, "open", lambda task, c: told.append(c) or opened(task, c))
    with KeyedProcessHarness(Emits(), "key long", "key", "key long") as harness:
        assert harness.process((1,)) == [(1,)]
    protocol.check_version(told[0])
