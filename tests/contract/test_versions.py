"""docs/versioning.md says what is tested, and nothing that is not.

The workflow, .ci/run, the Makefile and versions.properties are read here by other means than those
that make the table.
"""

from __future__ import annotations

import re
import subprocess
import sysconfig
from pathlib import Path

from keystate._jvm.session import versions

from docs.site import matrix
from tests.stores import lakes

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "versioning.md").read_text()
WORKFLOW = (ROOT / ".github" / "workflows" / "ci.yml").read_text()


def cells() -> dict[tuple[str, str, str], str]:
    """What the table says, by release of Spark, JDK and Python."""
    table = PAGE.split("<!-- matrix -->")[1].split("<!-- end -->")[0].strip().splitlines()
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in table)
    assert head[:2] == ["Spark", "JDK"]
    pythons = [name.removeprefix("Python ") for name in head[2:]]
    return {
        (spark, java, python): cell
        for spark, java, *tested in rows
        for python, cell in zip(pythons, tested, strict=True)
    }


def jobs() -> set[tuple[str, ...]]:
    """Which releases of Spark, JDKs and Pythons the workflow's job `test` runs on."""
    job = re.split(r"\n  (?=\w+:\n)", WORKFLOW)
    (test,) = (text for text in job if text.startswith("test:"))
    # Each of the three is used where it counts, and the tests are run.
    for used in (
        "SPARK: ${{ matrix.spark }}",
        'java-version: "${{ matrix.java }}"',
        "python-version: ${{ matrix.python }}",
        "- run: make test\n",
    ):
        assert used in test, used
    listed = [line for line in test.splitlines() if "spark:" in line and "{" in line]
    found = [re.findall(r'(\w+): "([\d.]+)"', line) for line in listed]
    assert found and all([name for name, _ in job] == ["spark", "java", "python"] for job in found)
    return {(release(job[0][1]), *(value for _, value in job[1:])) for job in found}


def release(spark: str) -> str:
    """What `make test` runs on, for SPARK: a release, or the one of a line."""
    return next((one for one in versions()["sparks"].split() if one.startswith(f"{spark}.")), spark)


def commands() -> list[dict[str, str]]:
    """The variables of each `make test` of .ci/run."""
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    made = [line for line in lines if re.search(r"\bmake\b.*\btest\b", line)]
    assert made
    return [dict(re.findall(r"\b(SPARK|JDK)=(\S+)", line)) for line in made]


def test_the_table_is_made_of_the_workflow() -> None:
    assert matrix.with_matrix(PAGE) == PAGE, "run make docs-tables"


def test_each_cell_says_what_is_so() -> None:
    once = {
        tuple(cell.strip() for cell in line.strip("|").split("|")[:3])
        for line in PAGE.split("<!-- end -->")[1].splitlines()
        if re.match(r"\| [\d.]+ \| \d+ \| [\d.]+ \|", line)
    }
    by_word: dict[str, set[tuple[str, ...]]] = {}
    for where, word in cells().items():
        by_word.setdefault(word, set()).add(where)
    assert set(by_word) <= {"tested in CI", "tested once", "not tested", "\N{EN DASH}"}
    assert by_word["tested in CI"] == jobs()
    assert by_word.get("tested once", set()) == once - jobs()


def test_all_that_is_supported_is_in_the_table() -> None:
    """Each line of Spark and its other patch, with each Java and Python; each of them in CI."""
    known = versions()
    supported = {
        (spark, java, python)
        for spark in (known["sparks"] + " " + known["patches"]).split()
        for line in [spark.rpartition(".")[0]]
        for java in known.get(f"javas{line}", known["javas"]).split()
        for python in known.get(f"pythons{line}", known["pythons"]).split()
    }
    assert {where for where, word in cells().items() if word != "\N{EN DASH}"} == supported
    lines = {spark.rpartition(".")[0] for spark in known["sparks"].split()}
    assert {patch.rpartition(".")[0] for patch in known["patches"].split()} <= lines
    for number, names in enumerate(zip(*supported)):
        assert {job[number] for job in jobs()} == set(names)


def test_ci_run_is_in_the_table() -> None:
    in_ci = {where for where, word in cells().items() if word == "tested in CI"}
    default = versions()["sparks"].split()[0]
    for command in commands():
        spark = release(command.get("SPARK", default))
        assert any(
            where[0] == spark and command.get("JDK", where[1]) == where[1] for where in in_ci
        ), command
    # Every line, and the newest JDK.
    run = {release(command.get("SPARK", default)) for command in commands()}
    assert set(versions()["sparks"].split()) <= run
    assert versions()["javas"].split()[-1] in {command.get("JDK") for command in commands()}


def test_make_finds_a_jdk_and_the_release(tmp_path: Path) -> None:
    def made(*arguments: str, **environment: str) -> tuple[int, str]:
        run = subprocess.run(
            ["make", "--dry-run", "test", *arguments],
            cwd=ROOT,
            env={"PATH": "/usr/bin:/bin", **environment},
            capture_output=True,
            text=True,
            timeout=60,
        )
        return run.returncode, run.stdout + run.stderr

    status, out = made("JDK=99")
    assert status != 0 and "JDK=99: there is none, JAVA_HOME_99_X64 would name it" in out
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("")
    java.chmod(0o755)
    patch = versions()["patches"].split()[0]
    status, out = made("JDK=99", f"SPARK={patch}", JAVA_HOME_99_X64=str(tmp_path))
    assert status == 0, out
    assert f".venv-spark{patch}/bin/python -m tests " in out and f"--java '{tmp_path}'" in out
    assert f"pyspark=={patch} " in out or (ROOT / f".venv-spark{patch}").exists()
    assert f"--logs target/spark{patch}-jdk99 " in out
    assert made("SPARK=1.0")[0] != 0


def test_the_package_names_its_pythons() -> None:
    text = (ROOT / "python" / "pyproject.toml").read_text()
    pythons = versions()["pythons"].split()
    assert re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text) == pythons
    assert f'requires-python = ">={pythons[0]}"' in text
    wheels = re.search(r'^build = "(.*)"$', text, re.M)
    assert wheels is not None
    assert wheels[1].split() == [f"cp{python.replace('.', '')}-*" for python in pythons]


def test_the_pages_name_the_javas_and_the_pythons() -> None:
    *most, last = versions()["javas"].split()
    javas = f"{', '.join(most)} or {last}"
    first = versions()["pythons"].split()[0]
    for page in ("README.md", "CONTRIBUTING.md", "docs/installing.md", "docs/index.md"):
        text = (ROOT / page).read_text()
        assert f"JDK {javas}" in text, page
        assert f"Python {first} or newer" in text or f"Python {first} to" in text, page
    for page in ("docs/start.md", "python/README.md"):
        assert f"JDK {javas}" in (ROOT / page).read_text(), page


def test_delta_and_iceberg() -> None:
    """One table says which release goes with a Spark; other places name the same."""
    pairs = lakes.pairs()
    assert {release.rpartition(".")[0] for release in versions()["sparks"].split()} <= set(pairs)
    known = set()
    for line, kinds in pairs.items():
        for coordinates, tested in kinds.values():
            known.add(coordinates)
            assert coordinates is None or f"{line}_2.13:" in coordinates
            assert (tested == "") == (coordinates is None)
            # What is tested is what tests/stores/test_delta.py and test_iceberg.py run with.
            assert tested in ("", "before a release")
    named = re.compile(r"(?:io\.delta|org\.apache\.iceberg):[\w.-]+:[\d.]+")
    for place in [*ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.py")]:
        assert set(named.findall(place.read_text())) <= known, place
    pom = (ROOT / "tests" / "stores" / "delta.xml").read_text()
    assert "<artifactId>delta-spark_${spark}_2.13</artifactId>" in pom
    assert pom.count("<version>${delta}</version>") == 2
    pom = (ROOT / "tests" / "stores" / "iceberg.xml").read_text()
    assert "<artifactId>iceberg-spark-runtime-${spark}_2.13</artifactId>" in pom
    assert pom.count("<version>${iceberg}</version>") == 1


def test_this_python_is_one_of_them() -> None:
    assert sysconfig.get_python_version() in versions()["pythons"].split()
