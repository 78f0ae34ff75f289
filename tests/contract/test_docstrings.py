"""Each public docstring and Scaladoc stands by itself: in a tooltip there is no line above it."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keystate

ROOT = Path(__file__).parents[2]
#: What points at a line above.
POINTS_BACK = re.compile(
    r"(Likewise|The same|As (the other|above|before|there|for|:|`|\[)|Of [a-z])\b"
)
SCALADOC = re.compile(r"/\*\*\s*(?:\*\s*)?(.*?)\*/\s*([^\n]*)", re.S)
#: Beginnings that put the object before the subject, and a word that hides who gets what.
FRONTED = re.compile(r"(Of|Those|As|Whether what)\b|.*\btold\b", re.S)
#: Parts of the Python package that do not keep this rule yet.
NOT_YET = re.compile(r"windows/|_worker/aggregates/")
#: The packages whose classes users name.
PACKAGES = ("", "stream", "windows", "backend")


def python_docs() -> Iterator[tuple[str, str]]:
    """The docstrings of public modules: of their functions and classes, and of what these have."""
    for found in pkgutil.iter_modules(keystate.__path__):
        if found.name.startswith("_"):
            continue
        module = importlib.import_module(f"keystate.{found.name}")
        for name, thing in public(vars(module)):
            if not (inspect.isclass(thing) or inspect.isfunction(thing)):
                continue
            if thing.__module__.startswith("keystate"):
                yield f"{found.name}.{name}", thing.__doc__ or ""
                for member, method in members(thing) if inspect.isclass(thing) else ():
                    yield f"{found.name}.{name}.{member}", getattr(method, "__doc__", None) or ""


def members(of: type) -> Iterator[tuple[str, Any]]:
    """Those that it has from Keystate, also by a private class."""
    for owner in of.__mro__:
        if owner.__module__.startswith("keystate"):
            yield from public(vars(owner))


def public(names: Any) -> Iterator[tuple[str, Any]]:
    return ((name, thing) for name, thing in names.items() if not name.startswith("_"))


def all_python_docs() -> Iterator[tuple[str, str]]:
    """The docstrings of all modules, private ones too, read from the source."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    package = ROOT / "python/keystate"
    for file in sorted(package.rglob("*.py")):
        path = file.relative_to(package).as_posix()
        if not NOT_YET.match(path):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, documented):
                    yield f"{path}: {getattr(node, 'name', '')}", ast.get_docstring(node) or ""


def scala_docs() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        for folder in ROOT.glob("*/src/main/scala/keystate"):
            for file in (folder / package).glob("*.scala"):
                for doc, documented in SCALADOC.findall(file.read_text()):
                    if not documented.startswith("private"):
                        yield f"{file.name}: {documented}", doc


def test_docstrings_stand_by_themselves() -> None:
    docs = list(python_docs())
    assert {"state.MapState.entries", "windows.Evictor.evict_after"} <= {name for name, _ in docs}
    wrong = [f"{name}: {doc}" for name, doc in docs if POINTS_BACK.match(doc)]
    assert not wrong, "\n".join(wrong)


def test_docstrings_begin_with_their_subject() -> None:
    docs = list(all_python_docs())
    assert {"streams/keyed.py: keyed", "_worker/task.py: "} <= {name for name, _ in docs}
    wrong = [f"{name}: {doc}" for name, doc in docs if FRONTED.match(doc)]
    assert not wrong, "\n".join(wrong)


def test_scaladocs_stand_by_themselves() -> None:
    docs = list(scala_docs())
    assert any(name.startswith("WindowedStream.scala: def reduce") for name, _ in docs)
    wrong = [f"{name}: {doc}" for name, doc in docs if POINTS_BACK.match(doc)]
    assert not wrong, "\n".join(wrong)
