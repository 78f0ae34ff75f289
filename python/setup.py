from pathlib import Path

from setuptools import setup

lines = (Path(__file__).parent / "keystate" / "versions.properties").read_text().splitlines()
versions = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))

# The package has a jar for each of these minor lines of Spark.
sparks = versions["sparks"].split()
major, minor = map(int, sparks[-1].split(".")[:2])

setup(
    version=versions["keystate"],
    install_requires=[
        f"pyspark>={sparks[0]},<{major}.{minor + 1}",
        f"pyarrow>={versions['pyarrow']}",
    ],
)
