"""Jars that only tests need, from Maven Central."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pyspark
import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
# Spark brings these itself.
OWN = ("slf4j-api", "commons-logging", "netty-")
#: The release of Spark's Kafka source on Maven Central that is nearest to the installed Spark.
KAFKA_SOURCE = {"spark": "4.1.3" if pyspark.__version__.startswith("4.1.") else "4.2.0"}


def hadoop_version() -> str:
    """The release of Hadoop that Spark has."""
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    return jar.stem.removeprefix("hadoop-client-api-")


def jars(name: str, **properties: str) -> list[Path]:
    """The jars of a POM in this folder, with properties of it; downloaded the first time."""
    properties = {"hadoop": hadoop_version(), **properties}
    kind = "-".join(f"{key}{value}" for key, value in properties.items())
    folder = ROOT / "target" / "test-jars" / f"{name}-{kind}"
    if not folder.exists():
        if shutil.which("mvn") is None:
            pytest.skip("needs Maven, which fetches the jars")
        new = folder.with_name(f"{folder.name}.new")
        options = ["-DincludeScope=runtime", f"-DoutputDirectory={new}"]
        options += [f"-D{key}={value}" for key, value in properties.items()]
        copy = ["mvn", "-q", "-f", str(HERE / f"{name}.xml"), "dependency:copy-dependencies"]
        subprocess.run([*copy, *options], check=True, timeout=300)
        new.rename(folder)
    return sorted(folder.glob("*.jar"))


def jars_for_spark(*names: str, **properties: str) -> str:
    """The same for the setting `spark.jars`, without what Spark has."""
    found = [jar for name in names for jar in jars(name, **properties)]
    return ",".join(
        str(jar) for jar in found if not jar.name.startswith(OWN) or "netty-nio" in jar.name
    )
