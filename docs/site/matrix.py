"""Writes the table of docs/versioning.md that says what is tested: python -m docs.site.matrix.

What is there is what python/keystate/versions.properties names. A cell is tested in CI if the
workflow has a job for it, and tested once if the page's list below says so.
tests/contract/test_versions.py compares page, workflow and .ci/run.
"""

from __future__ import annotations

import re

from docs.site.tables import ROOT, as_text
from release.dist import Release

PAGE = ROOT / "docs" / "versioning.md"
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"
TABLE = re.compile(r"(<!-- matrix -->\n).*?(<!-- end -->)", re.S)
JOB = re.compile(r'- \{spark: "([\d.]+)", java: "(\d+)", python: "([\d.]+)"\}')
ONCE = re.compile(r"^\| ([\d.]+) \| (\d+) \| ([\d.]+) \| \w", re.M)

IN_CI, ONCE_ONLY, NOT, IMPOSSIBLE = "tested in CI", "tested once", "not tested", "\N{EN DASH}"


def releases(known: dict[str, list[str]]) -> list[str]:
    """The tested releases of Spark: one of each line, and the newest patch of a line."""
    return sorted(
        known["sparks"] + known["patches"], key=lambda name: list(map(int, name.split(".")))
    )


def rows(page: str, workflow: str) -> list[list[str]]:
    """The head of the table, and its rows."""
    release = Release(ROOT)
    known = {name: value.split() for name, value in release.versions.items()}
    in_ci = {(release.sparks.get(spark, spark), *rest) for spark, *rest in JOB.findall(workflow)}
    once = set(ONCE.findall(page))

    def cell(spark: str, java: str, python: str) -> str:
        line = spark.rpartition(".")[0]
        for name, value in (("javas", java), ("pythons", python)):
            if value not in known.get(f"{name}{line}", known[name]):
                return IMPOSSIBLE
        one = (spark, java, python)
        return IN_CI if one in in_ci else ONCE_ONLY if one in once else NOT

    made = [["Spark", "JDK", *(f"Python {python}" for python in known["pythons"])]]
    for spark in releases(known):
        for java in known["javas"]:
            cells = [cell(spark, java, python) for python in known["pythons"]]
            if set(cells) != {IMPOSSIBLE}:
                made.append([spark, java, *cells])
    return made


def with_matrix(page: str) -> str:
    """The page with its table as the workflow is now."""
    text = as_text(*rows(TABLE.sub("", page), WORKFLOW.read_text()))
    return TABLE.sub(lambda found: f"{found[1]}\n{text}\n{found[2]}", page)


if __name__ == "__main__":
    PAGE.write_text(with_matrix(PAGE.read_text()))
