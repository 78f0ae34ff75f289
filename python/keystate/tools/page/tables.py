"""A checkpoint's content as tables, for terminals and pages."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from typing import Any

from keystate.state.kinds import StateKind

Table = tuple[str, list[str], list[list[str]]]


def tables(found: dict[str, Any]) -> list[Table]:
    """The result of ``inspect`` as tables with title, heads and rows."""
    made: list[Table] = [
        (
            found["checkpoint"],
            ["last batch", "pending batch", "partitions", "checkpoint format"],
            [_cells([found["batch"], found["pending"], found["partitions"], found["format"]])],
        )
    ]
    for operator in found["operators"]:
        made += _operator(operator)
    if found["sources"]:
        heads = ["source", "name", "last batch", "parallelism", "state elements"]
        rows = [
            _cells([s["folder"], s["name"], s["batch"], s["parallelism"], s["state_elements"]])
            for s in found["sources"]
        ]
        made.append(("Stateful sources", heads, rows))
    return made


def _operator(operator: dict[str, Any]) -> list[Table]:
    kind = "Keystate's" if operator["keystate"] else "Spark's"
    versions = f"versions {operator['oldest_version']} to {operator['newest_version']}"
    title = (
        f"Operator {operator['id']} ({operator['name']}, {kind}): {versions}, "
        f"{operator['max_parallelism']} key groups, {operator['files']} files, "
        f"{size(operator['bytes'])}"
    )
    states = [
        _cells(
            [
                state["name"],
                state["kind"],
                _type(state["properties"].get("keyType")),
                _type(state["properties"].get("valueType")),
                state["properties"].get("order") if state["kind"] == StateKind.SORTED_MAP else None,
                state["entries"],
            ]
        )
        for state in operator["states"]
    ]
    partitions = [
        _cells(
            [
                part["partition"],
                f"{part['groups'][0]} to {part['groups'][1]}",
                part["entries"],
                part["runs"],
                size(part["bytes"]),
            ]
        )
        for part in operator["partitions"]
    ]
    return [
        (title, ["state", "kind", "map key", "value", "order", "entries"], states),
        ("", ["partition", "key groups", "entries", "runs", "size of runs"], partitions),
    ]


def text(made: Sequence[Table]) -> str:
    """Tables for a terminal."""
    blocks = []
    for title, heads, rows in made:
        widths = [max(map(len, column)) for column in zip(heads, *rows)]
        lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in rows]
        head = "  ".join(c.ljust(w) for c, w in zip(heads, widths)).rstrip()
        blocks.append("\n".join([*([title] if title else []), head, *lines]))
    return "\n\n".join(blocks)


def as_html(table: Table) -> str:
    """A table for a page."""
    title, heads, rows = table
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    above = f"<h3>{html.escape(title)}</h3>" if title else ""
    return f"{above}<div class=table><table><tr>{head}</tr>{body}</table></div>"


def _cells(values: Sequence[Any]) -> list[str]:
    return ["-" if value is None else _cell(value) for value in values]


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {one}" for key, one in value.items()) or "-"
    return str(value)


def _type(data_type: str | None) -> str | None:
    """A type in JSON as DDL, as far as it is simple."""
    return None if data_type is None else _ddl(json.loads(data_type))


def _ddl(kind: Any) -> str:
    # Not by PySpark's types: of JSON in a checkpoint they would import and call what it names.
    if isinstance(kind, str):
        return {"long": "bigint", "integer": "int"}.get(kind, kind)
    if kind["type"] == "struct":
        fields = ", ".join(f"{f['name']}: {_ddl(f['type'])}" for f in kind["fields"])
        return f"struct<{fields}>"
    if kind["type"] == "array":
        return f"array<{_ddl(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{_ddl(kind['keyType'])}, {_ddl(kind['valueType'])}>"
    return str(kind["type"])


def size(bytes_: int) -> str:
    """So many bytes, for people."""
    amount = float(bytes_)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            break
        amount /= 1024
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
