"""Counts what a house has too much of sooner or later, and holds the counts below limits.

``make counts``, or ``python tests/counts.py``, prints them. It fails where one is above its limit.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "python" / "keystate"

#: The most that there may be of what :func:`counts` counts. PackagesSuite holds those of Scala in
#: the classes too.
LIMITS: dict[str, int] = json.loads(Path(__file__).with_name("limits.json").read_text())


class Count:
    """A number, and where it is so large."""

    def __init__(self, number: int, where: str = "") -> None:
        self.number = number
        self.where = where


def largest(found: Iterable[tuple[int, str]]) -> Count:
    return Count(*max(found, default=(0, "")))


def code_of(text: str) -> str:
    """Scala without comments and strings."""
    return re.sub(r'/\*.*?\*/|//[^\n]*|"""(?:.|\n)*?"""|"(?:\\.|[^"\\\n])*"', " ", text, flags=re.S)


class Scala:
    """The Scala code of the product."""

    OURS = ("keystate", "org.apache.spark.sql.keystate")

    @cached_property
    def files(self) -> dict[Path, str]:
        found = [f for m in ("engine", "jvm") for f in (ROOT / m / "src/main").rglob("*.scala")]
        return {path: path.read_text() for path in sorted(found)}

    @cached_property
    def packages(self) -> dict[str, list[Path]]:
        """The files of each. The names for `import keystate._` are no package of their own."""
        found: dict[str, list[Path]] = {}
        for path in self.files:
            parts = path.parent.relative_to(ROOT).parts
            name = ".".join(parts[parts.index("main") + 2 :])
            if name != "org.apache.spark.sql":
                found.setdefault(name, []).append(path)
        return found

    @staticmethod
    def _line(path: Path) -> str:
        """The lines of Spark that a file is for: a build has one of the files of a name."""
        parts = path.relative_to(ROOT).parts
        return parts[parts.index("main") + 1]

    def sizes(self) -> Iterator[tuple[int, int, str]]:
        """Files and lines of each package, of all lines of Spark together where they differ."""
        for name, paths in self.packages.items():
            distinct = {path.name for path in paths}
            lines = sum(
                max(len(self.files[p].splitlines()) for p in paths if p.name == one)
                for one in distinct
            )
            yield len(distinct), lines, name

    def imports(self) -> Iterator[tuple[int, str]]:
        """How many other own packages each file imports from."""
        names = sorted(self.packages, key=len, reverse=True)
        own = {path: name for name, paths in self.packages.items() for path in paths}
        for path, text in self.files.items():
            found = set()
            for one in re.findall(r"^import ([\w.]+)", text, flags=re.M):
                name = next((n for n in names if one == n or one.startswith(f"{n}.")), None)
                if name and one.startswith(self.OURS) and name != own.get(path):
                    found.add(name)
            yield len(found), path.stem

    def depths(self) -> Iterator[tuple[int, str]]:
        """How many own classes each inherits from, one from the other, with itself. Traits count
        not: those of the API are Flink's interfaces.
        """
        bases: dict[tuple[Path, str], set[str]] = {}
        for path, text in self.files.items():
            for name, of in self._classes(code_of(text)):
                bases.setdefault((path, name), set()).update(of)
        places: dict[str, list[Path]] = {}  # where a class of a name is; objects have no heirs
        for path, text in self.files.items():
            for name in re.findall(r"\bclass (\w+)", code_of(text)):
                places.setdefault(name, []).append(path)
        known: dict[tuple[Path, str], int] = {}

        def depth(path: Path, name: str) -> int:
            if (path, name) not in known:
                known[path, name] = 1  # a type and its object have one name
                others = [self._place(path, base, places) for base in bases[path, name]]
                inherited = [depth(*at) for at in others if at and at != (path, name)]
                known[path, name] = 1 + max(inherited, default=0)
            return known[path, name]

        for path, name in list(bases):
            yield depth(path, name), f"{path.stem}: {name}"

    def _place(
        self, path: Path, base: str, places: dict[str, list[Path]]
    ) -> tuple[Path, str] | None:
        found = places.get(base, [])
        if path in found:
            return path, base
        near = [p for p in found if p.parent == path.parent]
        if not near:
            text = self.files[path]
            named = re.findall(
                rf"^import ([\w.]+)\.(?:\{{[^}}]*\b{base}\b[^}}]*\}}|{base}$)", text, re.M
            )
            near = [
                p for p in found if any(str(p.parent).endswith(n.replace(".", "/")) for n in named)
            ]
            # Members of an object that is imported whole or in part.
            near += [p for p in found if any(n.rpartition(".")[2] == p.stem for n in named)]
        same = [p for p in near if self._line(p) == self._line(path)]
        return ((same or near)[0], base) if near else None

    @staticmethod
    def _classes(code: str) -> Iterator[tuple[str, set[str]]]:
        for found in re.finditer(r"\b(?:class|object) (\w+)", code):
            at, depth = found.end(), 0
            # Types, modifiers and parameters of the constructor; then it extends something, or not.
            while at < len(code):
                char = code[at]
                depth += (char in "([") - (char in ")]")
                if depth == 0 and (char in "{}=;" or re.match(r"\n\s*\n|extends\b", code[at:])):
                    break
                if depth < 0:
                    break
                at += 1
            bases = set()
            if code.startswith("extends", at):
                for part in re.finditer(
                    r"(?:extends|with)\s+(?:[\w]+\.)*(\w+)", code[at : at + 600]
                ):
                    if "{" in code[at : at + part.start()].replace("{}", ""):
                        break
                    bases.add(part.group(1))
            yield found.group(1), bases


def module_of(path: Path) -> str:
    """The name of a file of the package."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


class Python:
    """The Python code of the product."""

    @cached_property
    def texts(self) -> dict[str, str]:
        return {module_of(path): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}

    @cached_property
    def modules(self) -> dict[str, ast.Module]:
        return {name: ast.parse(text) for name, text in self.texts.items()}

    def rooms(self) -> int:
        """Modules and packages directly in ours."""
        return len({name.split(".")[1] for name in self.modules if "." in name} - {"__main__"})

    def named(self, node: ast.AST) -> Iterator[str]:
        """The own modules that an import statement names."""
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            while name and name not in self.modules:
                name = name.rpartition(".")[0]
            if name:
                yield name

    @cached_property
    def imported(self) -> dict[str, set[str]]:
        return {
            module: {name for node in ast.walk(tree) for name in self.named(node)} - {module}
            for module, tree in self.modules.items()
        }

    def imports(self) -> Iterator[tuple[int, str]]:
        """How many own modules each imports. An ``__init__`` that only gathers names counts not."""
        for module, others in self.imported.items():
            if module != "keystate":
                yield len(others), module

    def chain(self) -> list[str]:
        """The longest chain of modules that each import the next one."""
        known: dict[str, list[str]] = {}

        def longest(module: str) -> list[str]:
            if module not in known:
                known[module] = [module]  # what imports itself by others is tested elsewhere
                tails = [longest(other) for other in sorted(self.imported[module])]
                known[module] = [module, *max(tails, key=len, default=[])]
            return known[module]

        return max((longest(module) for module in self.modules), key=len)

    def depths(self) -> Iterator[tuple[int, str]]:
        """How many own classes each inherits from, one from the other, with itself."""
        classes: dict[tuple[str, str], list[str]] = {}
        names: dict[str, dict[str, str]] = {}  # by module: where a name that it imports is from
        for module, tree in self.modules.items():
            names[module] = {}
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and node.module:
                    for alias in node.names:
                        names[module][alias.asname or alias.name] = f"{node.module} {alias.name}"
                if isinstance(node, ast.ClassDef):
                    classes[module, node.name] = [ast.unparse(b).split("[")[0] for b in node.bases]

        def find(module: str, name: str) -> tuple[str, str] | None:
            head, _, rest = name.partition(".")
            if rest:
                source = names[module].get(head, "").replace(" ", ".")
                return find(source, rest) if source in self.modules else None
            if (module, name) in classes:
                return module, name
            source, _, original = names[module].get(name, "").partition(" ")
            return find(source, original) if source in self.modules else None

        known: dict[tuple[str, str], int] = {}

        def depth(at: tuple[str, str]) -> int:
            if at not in known:
                known[at] = 1
                found = [find(at[0], base) for base in classes[at]]
                known[at] = 1 + max((depth(one) for one in found if one and one != at), default=0)
            return known[at]

        for at in list(classes):
            yield depth(at), f"{at[0]}.{at[1]}"


def words(*paths: Path) -> int:
    return sum(len(path.read_text().split()) for path in paths)


def counts() -> dict[str, Count]:
    scala, python = Scala(), Python()
    native = (PACKAGE / "_compiled" / "native.c").read_text()
    texts = [*scala.files.values(), *python.texts.values(), native]
    sizes = list(scala.sizes())
    chain = python.chain()
    return {
        "product lines": Count(sum(len(text.splitlines()) for text in texts)),
        "Scala packages": Count(len(scala.packages)),
        "files of a Scala package": largest((files, name) for files, _, name in sizes),
        "lines of a Scala package": largest((lines, name) for _, lines, name in sizes),
        "own packages imported by a Scala file": largest(scala.imports()),
        "inheritance of Scala classes": largest(scala.depths()),
        "Python rooms at the top": Count(python.rooms()),
        "own modules imported by a Python module": largest(python.imports()),
        "imports in a chain of Python modules": Count(len(chain), f"{chain[0]} to {chain[-1]}"),
        "inheritance of Python classes": largest(python.depths()),
        "words of docs": Count(words(*(ROOT / "docs").rglob("*.md"))),
        "words of README": Count(words(ROOT / "README.md")),
        "words of bench/README": Count(words(ROOT / "bench" / "README.md")),
    }


def main() -> int:
    found = counts()
    for name, count in found.items():
        mark = "  above its limit" if count.number > LIMITS[name] else ""
        print(f"{name:42}{count.number:>8,} of {LIMITS[name]:>7,}  {count.where}{mark}".rstrip())
    return int(any(count.number > LIMITS[name] for name, count in found.items()))


if __name__ == "__main__":
    sys.exit(main())
