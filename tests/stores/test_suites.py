"""Spark's suite for state store providers, and Keystate's own, with checkpoints in S3 and HDFS."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests import jvm_archive
from tests.fault.faults import ROOT
from tests.stores.hdfs_cluster import hdfs
from tests.stores.s3_server import s3

OWN = ["*KeyGroupStateStoreProviderSuite", "*ColumnFamilySuite", "*BackendLeaseSuite"]
ALL = [*OWN, "*KeyGroupStateStore*Suite"]


def core_site(folder: Path, settings: dict[str, str]) -> Path:
    """The settings as every Hadoop configuration of a process begins with them."""
    site = ElementTree.Element("configuration")
    for key, value in settings.items():
        if key.startswith("spark.hadoop."):
            setting = ElementTree.SubElement(site, "property")
            ElementTree.SubElement(setting, "name").text = key.removeprefix("spark.hadoop.")
            ElementTree.SubElement(setting, "value").text = value
    folder.mkdir()
    ElementTree.ElementTree(site).write(folder / "core-site.xml")
    return folder


def run_suites(store: Any, suites: list[str], folder: Path) -> int:
    """Runs Scala suites with their checkpoints in a store; returns how many tests passed."""
    settings = store.settings()
    added = [core_site(folder / "site", settings)]
    added += [Path(jar) for jar in settings.get("spark.jars", "").split(",") if jar]
    files = ", ".join(f'file("{path}")' for path in added)
    commands = [
        f"set jvm / Test / fullClasspath ++= Attributed.blankSeq(Seq({files}))",
        f'set jvm / Test / envVars += "KEYSTATE_TEST_CHECKPOINTS" -> "{store.url}/suites"',
        f"jvm/testOnly {' '.join(suites)}",
    ]
    run = subprocess.run(
        [str(ROOT / "sbt"), *commands], cwd=ROOT, capture_output=True, text=True, timeout=1500
    )
    (counted,) = re.findall(r"Tests: succeeded (\d+), failed 0,", run.stdout) or [run.stdout]
    assert run.returncode == 0, run.stdout
    assert any("/state/" in path or "suites/" in path for path in store.files()), store.files()
    return int(counted)


@pytest.mark.turns
def test_keystates_on_s3(tmp_path: Path) -> None:
    with s3(tmp_path) as store:
        assert run_suites(store, OWN, tmp_path) > 20


@pytest.mark.skipif("SLOW" not in os.environ, reason="long; set SLOW=1")
@pytest.mark.parametrize("started", [s3, hdfs])
def test_all(started: Callable[[Path], AbstractContextManager[Any]], tmp_path: Path) -> None:
    # Spark's suite is run on the default Spark alone.
    least = 100 if jvm_archive.ON_DEFAULT_SPARK else 20
    with started(tmp_path) as store:
        assert run_suites(store, ALL, tmp_path) > least
