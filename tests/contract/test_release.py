"""`make release-check` finds whatever a release lacks."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from release import maven, packages, sbom, texts
from release.__main__ import check, unsigned
from release.dist import Release

ROOT = Path(__file__).resolve().parents[2]
METADATA = """Metadata-Version: 2.4
Name: keystate
Version: {version}
Requires-Python: >=3.10
Requires-Dist: pyspark<{below},>={first}
Requires-Dist: pyarrow>={pyarrow}
Requires-Dist: numpy>={numpy}

Text.
"""
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
  <name>Keystate</name><description>State</description><url>https://example.org</url>
  <licenses><license><name>Apache-2.0</name></license></licenses>
  <developers><developer><name>All</name></developer></developers>
  <scm><url>https://example.org</url></scm>
  <dependencies>
    <dependency><artifactId>scala-library</artifactId></dependency>
    <dependency><artifactId>spark-sql_2.13</artifactId><scope>provided</scope></dependency>
  </dependencies>
</project>
"""
IN_PACKAGE = [
    "errors.json",
    "settings.json",
    "versions.properties",
    "py.typed",
    "tools/page/page.js",
]


def zipped(path: Path, files: Mapping[str, str | bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)


def without(path: Path, name: str) -> None:
    """Takes a file out of an archive."""
    if path.suffix == ".gz":
        with tarfile.open(path) as archive:
            kept = [one for one in archive.getnames() if one != name]
        tarred(path, kept)
        return
    with zipfile.ZipFile(path) as archive:
        files = {one: archive.read(one) for one in archive.namelist() if one != name}
        assert len(files) < len(archive.namelist()), name
    zipped(path, files)


def tarred(path: Path, names: list[str]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Release:
    """A complete one, without a tag and signatures."""
    monkeypatch.setattr(sbom, "_invalid", lambda name, text: ())
    made = Release(tmp_path)
    (tmp_path / "python" / "keystate").mkdir(parents=True)
    shutil.copy(ROOT / "python/keystate/versions.properties", tmp_path / "python/keystate")
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text(f"{made.jar('4.2')}\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n- All.\n")
    jars = [f"jars/{made.jar(line)}" for line in made.sparks]
    top = f"keystate-{made.version}"
    names = ["pyproject.toml", "setup.py", "README.md", "PKG-INFO", "LICENSE", "NOTICE"]
    names += [f"keystate/{name}" for name in [*IN_PACKAGE, *jars, "_compiled/native.c"]]
    made.dist.mkdir()
    tarred(made.sdist, [f"{top}/{name}" for name in names])
    first, *_, last = sorted(made.sparks.values()) * 2
    major, minor = last.split(".")[:2]
    metadata = METADATA.format(
        version=made.version,
        first=first.rpartition(".")[0],
        below=f"{major}.{int(minor) + 1}",
        pyarrow=made.versions["pyarrow"],
        numpy=made.versions["numpy"],
    )
    info = {
        f"{top}.dist-info/{name}": ""
        for name in ("entry_points.txt", "licenses/LICENSE", "licenses/NOTICE")
    }
    files = {f"keystate/{name}": "" for name in [*IN_PACKAGE, *jars]} | info
    files[f"{top}.dist-info/METADATA"] = metadata
    zipped(made.wheel, files)
    compiled = made.dist / "compiled" / f"{top}-cp311-cp311-linux_x86_64.whl"
    zipped(compiled, {**files, "keystate/_compiled/native.cpython-311-x86_64-linux-gnu.so": ""})
    own = [
        "META-INF/LICENSE",
        "META-INF/NOTICE",
        "keystate/errors.json",
        "keystate/backend/A.class",
    ]
    for line in made.sparks:
        pom, jar, sources, javadoc = made.maven_files(line)
        zipped(jar, dict.fromkeys([*own, "org/", "org/apache/spark/sql/keystate/B.class"], line))
        zipped(sources, {"keystate/A.scala": ""})
        zipped(javadoc, {"index.html": ""})
        pom.write_text(
            POM.format(group=made.group, artifact=made.artifact(line), version=made.version)
        )
    sbom.write(made)
    maven.write_bundle(made)
    return made


def problems(release: Release, tag: str | None = None) -> list[str]:
    return [
        *texts.problems(release, tag),
        *packages.problems(release),
        *maven.problems(release, tag),
        *sbom.problems(release),
    ]


def test_a_complete_one(release: Release, capsys: pytest.CaptureFixture[str]) -> None:
    assert problems(release) == []
    assert check(release) == 0
    out = capsys.readouterr().out
    files = 4 + 4 * len(release.sparks)
    assert f"{files} files of {release.version}, 0 missing or wrong" in out
    assert out.count("awaited  a signature: ") == files
    assert f"awaited  a signature: keystate-{release.version}.tar.gz.asc" in out
    assert f"awaited  CHANGELOG.md: Unreleased becomes ## {release.version}" in out


def test_the_bundle_has_all_files_their_checksums_and_signatures(release: Release) -> None:
    line = next(iter(release.sparks))
    jar = release.maven_files(line)[1]
    jar.with_name(f"{jar.name}.asc").write_text("signed")
    assert jar not in unsigned(release)
    maven.write_bundle(release)
    with zipfile.ZipFile(release.bundle) as bundle:
        names = bundle.namelist()
        md5 = bundle.read(f"keystate/{release.artifact(line)}/{release.version}/{jar.name}.md5")
    assert f"keystate/{release.artifact(line)}/{release.version}/{jar.name}.asc" in names
    assert len(names) == len(set(names)) == 4 * 5 * len(release.sparks) + 1
    run = subprocess.run(["md5sum", jar], capture_output=True, text=True, check=True)
    assert run.stdout.split()[0] == md5.decode()


def file(release: Release, name: str) -> Path:
    """A file of the release, by a part of its name; with a line's artifact, of the last line."""
    (*_, last) = release.sparks
    made = [release.sdist, release.wheel, release.sbom, release.bundle]
    made += [*release.compiled_wheels(), *release.maven_files(last)]
    beside = [Path(f"{path}.{kind}") for path in release.maven_files(last) for kind in ("sha1",)]
    (found,) = (path for path in [*made, *beside] if path.name.endswith(name))
    return found


@pytest.mark.parametrize(
    "name",
    [
        ".tar.gz",
        "any.whl",
        "linux_x86_64.whl",
        "cdx.json",
        "maven.zip",
        ".pom",
        "sources.jar",
        "javadoc.jar",
        "0.jar",
        "0.jar.sha1",
        "sources.jar.sha1",
    ],
)
def test_a_file_that_is_missing(name: str, release: Release) -> None:
    file(release, name).unlink()
    assert problems(release)
    assert check(release) == 1


@pytest.mark.parametrize(
    ("archive", "name"),
    [
        (".tar.gz", "keystate-{version}/keystate/_compiled/native.c"),
        (".tar.gz", "keystate-{version}/keystate/jars/{jar}"),
        ("any.whl", "keystate/jars/{jar}"),
        ("any.whl", "keystate/py.typed"),
        ("any.whl", "keystate-{version}.dist-info/licenses/NOTICE"),
        ("linux_x86_64.whl", "keystate/versions.properties"),
        ("linux_x86_64.whl", "keystate/_compiled/native.cpython-311-x86_64-linux-gnu.so"),
        ("0.jar", "META-INF/LICENSE"),
        ("0.jar", "keystate/backend/A.class"),
        ("sources.jar", "keystate/A.scala"),
        ("javadoc.jar", "index.html"),
        ("maven.zip", "keystate/{artifact}/{version}/{jar}.sha512"),
        ("maven.zip", "keystate/{artifact}/{version}/{jar}"),
    ],
)
def test_a_file_of_an_archive_that_is_missing(archive: str, name: str, release: Release) -> None:
    (*_, last) = release.sparks
    names = {"jar": release.jar(last), "artifact": release.artifact(last)}
    missing = name.format(version=release.version, **names)
    without(file(release, archive), missing)
    if archive != "maven.zip":  # checksums are right, what they are of is not
        sbom.write(release)
        maven.write_bundle(release)
    (found, *more) = problems(release)
    assert not more
    assert file(release, archive).name in found


def test_what_is_of_another_build(release: Release) -> None:
    def change(path: Path, more: dict[str, str]) -> str:
        with zipfile.ZipFile(path, "a") as archive:
            for name, text in more.items():
                archive.writestr(name, text)
        sbom.write(release)
        maven.write_bundle(release)
        (found,) = problems(release)
        without(path, next(iter(more)))
        return found

    jar = file(release, "0.jar")
    assert "com/other/A.class, which is not" in change(jar, {"com/other/A.class": ""})
    assert "org/apache/spark/sql/A.class" in change(jar, {"org/apache/spark/sql/A.class": ""})
    old = "keystate/jars/keystate-spark4.2_2.13-0.0.1.jar"
    assert f"has {old}, which is of another build" in change(release.wheel, {old: ""})
    code = "keystate/_compiled/native.cpython-311-x86_64-linux-gnu.so"
    assert "has compiled code" in change(release.wheel, {code: ""})


def test_a_pom_that_lacks_something(release: Release) -> None:
    pom = file(release, ".pom")
    text = pom.read_text()

    def found(old: str, new: str, tag: str | None = None) -> list[str]:
        assert old in text
        pom.write_text(text.replace(old, new))
        sbom.write(release)
        maven.write_bundle(release)
        return list(maven.problems(release, tag))

    assert found("<developer><name>All</name></developer>", "")[0].endswith("has no developers")
    scm = "<scm><url>https://example.org</url></scm>"
    assert found(scm, "") == []  # a dry run
    assert found(scm, "", tag="v1")[0].endswith("has no scm")
    assert "which Spark has not brought" in found("<scope>provided</scope>", "")[0]
    assert "not 0." in found(f"<version>{release.version}<", "<version>9.9.9<")[0]


def test_only_a_dry_run_may_lack_the_projects_address(
    release: Release, capsys: pytest.CaptureFixture[str]
) -> None:
    properties = release.root / "python/keystate/versions.properties"
    text = re.sub("^url=.*", "url=", properties.read_text(), flags=re.M)
    properties.write_text(text)
    without = Release(release.root)
    assert check(without) == 0
    assert f"awaited  {maven.NO_URL}" in capsys.readouterr().out
    assert maven.NO_URL in maven.problems(without, f"v{release.version}")
    assert check(without, f"v{release.version}") == 1
    out = capsys.readouterr().out
    assert (
        f"missing  {maven.NO_URL}" in out
        and "awaited  versions.properties: group: Maven Central" in out
    )
    properties.write_text(text.replace("url=", "url=https://example.org"))
    assert maven.NO_URL not in maven.problems(Release(release.root), f"v{release.version}")


def test_a_bill_of_other_jars(release: Release) -> None:
    jar = file(release, "0.jar")
    with zipfile.ZipFile(jar, "a") as archive:
        archive.writestr("keystate/More.class", "")
    maven.write_bundle(release)
    (found,) = problems(release)
    assert f"does not have {jar.name} as it is" in found


def test_numbers(release: Release) -> None:
    properties = release.root / "python/keystate/versions.properties"
    other = Release(release.root)
    properties.write_text(properties.read_text().replace("keystate=", "keystate=v"))
    assert any("is no number" in found for found in texts.problems(other, None))
    page = release.root / "docs" / "page.md"
    page.write_text(f"{release.group}:keystate-spark4.2_2.13:9.9.9")
    (found,) = texts.problems(release, None)
    assert found == f"docs/page.md names a jar of 9.9.9, not {release.version}"
    page.write_text(f"org.another:keystate-spark4.2_2.13:{release.version}")
    (found,) = texts.problems(release, None)
    assert found == f"docs/page.md names a jar of the group org.another, not {release.group}"


def test_a_tag(release: Release) -> None:
    def git(*arguments: str) -> None:
        name = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "tag.gpgsign=false"]
        subprocess.run(["git", *name, *arguments], cwd=release.root, check=True)

    tag = f"v{release.version}"
    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "--message", "all")
    assert any("the tag v9.9.9 is not" in found for found in texts.problems(release, "v9.9.9"))
    none, unnamed = texts.problems(release, tag)
    assert "CHANGELOG.md has no section" in none
    assert "there is no annotated tag" in unnamed
    (release.root / "CHANGELOG.md").write_text(f"## {release.version} - 2026-12-01\n\n- All.\n")
    git("tag", "--annotate", "--message", "it", tag)
    (found,) = texts.problems(release, tag)
    assert "is not signed" in found
    git("tag", "--force", "--annotate", "--message", "it\n\n-----BEGIN PGP SIGNATURE-----\n", tag)
    assert list(texts.problems(release, tag)) == []


def test_the_workflow_signs_what_awaits_a_signature() -> None:
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    for command in (
        'make release-check TAG="$GITHUB_REF_NAME"',
        "python3 -m release unsigned | xargs -n 1 gpg ",
        "python3 -m release bundle",
    ):
        assert command in workflow
