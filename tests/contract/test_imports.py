"""The structure of the code: modules import each other at their top and in one direction."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter

import pytest
from keystate.checkpoints.shown import Shown
from keystate.tools.page import rendering

from tests.counts import PACKAGE, Python, module_of

CODE = Python()
MODULES = CODE.modules
PACKAGES = [module_of(path) for path in PACKAGE.rglob("__init__.py")]
#: What stands on the library: the command, and how reports look.
TOOLS = ("keystate.__main__", "keystate.tools", "keystate.tools.page")


def imported(node: ast.AST) -> Iterator[str]:
    """The modules of keystate that an import statement names."""
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0 and node.module, "imports are absolute"
    yield from CODE.named(node)


def hidden(node: ast.AST, within: bool = False) -> Iterator[tuple[int, str]]:
    """Lines with imports that do not run when the module is imported."""
    for child in ast.iter_child_nodes(node):
        here = within or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.If, ast.Try))
        if here:
            yield from ((child.lineno, name) for name in imported(child))  # type: ignore[attr-defined]
        yield from hidden(child, here)


def test_no_import_is_hidden_in_a_function_or_a_condition() -> None:
    assert [(module, *found) for module, tree in MODULES.items() for found in hidden(tree)] == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {
        module: {name for node in ast.walk(tree) for name in imported(node)} - {module}
        for module, tree in MODULES.items()
    }
    list(TopologicalSorter(graph).static_order())  # raises CycleError


def is_tool(module: str) -> bool:
    return any(f"{module}.".startswith(f"{tool}.") for tool in TOOLS)


def test_the_library_imports_no_tools() -> None:
    library = {module: tree for module, tree in MODULES.items() if not is_tool(module)}
    found = [
        (module, name)
        for module, tree in library.items()
        for node in ast.walk(tree)
        for name in imported(node)
        if is_tool(name)
    ]
    assert found == []
    # Not by its name either, but in the one place where a report finds what renders it.
    named = [
        module
        for module, tree in library.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and is_tool(node.value)
    ]
    assert named == ["keystate.checkpoints.shown"]


def test_each_report_has_a_renderer() -> None:
    reports = Shown.__subclasses__()
    assert len(reports) > 3
    assert [one for one in reports if one not in rendering.as_html.registry] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_parts_of_a_package_import_each_other_in_a_circle(package: str) -> None:
    """Its parts are the packages and modules directly in it."""
    depth = package.count(".") + 2
    graph: dict[str, set[str]] = {}
    for module, tree in MODULES.items():
        part = ".".join(module.split(".")[:depth])
        others = {".".join(n.split(".")[:depth]) for node in ast.walk(tree) for n in imported(node)}
        if part.startswith(f"{package}."):
            within = {other for other in others if other.startswith(f"{package}.")}
            graph.setdefault(part, set()).update(within - {part})
    list(TopologicalSorter(graph).static_order())  # raises CycleError


def test_a_package_says_what_it_is_for() -> None:
    inits = list(PACKAGE.rglob("__init__.py"))
    assert [str(path) for path in inits if not ast.get_docstring(ast.parse(path.read_text()))] == []


def test_no_module_has_the_name_of_one_of_the_standard_library() -> None:
    names = {module.rpartition(".")[2] for module in MODULES} - {"__main__"}
    assert names & sys.stdlib_module_names == set()


def parameters(made: ast.ClassDef) -> int:
    """How many the class is constructed with: those of its ``__init__``, or its fields."""
    decorators = [ast.unparse(d).partition("(")[0] for d in made.decorator_list]
    if "dataclass" in decorators or "NamedTuple" in [ast.unparse(base) for base in made.bases]:
        fields = [ast.unparse(node) for node in made.body if isinstance(node, ast.AnnAssign)]
        return sum("init=False" not in each for each in fields)
    inits = [n for n in made.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
    return max((len(n.args.args) + len(n.args.kwonlyargs) - 1 for n in inits), default=0)


def test_no_class_has_more_than_twelve_constructor_parameters() -> None:
    found = {
        (module, node.name): parameters(node)
        for module, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    assert max(found.values()) > 3, "it finds some"
    assert [name for name, many in found.items() if many > 12] == []
