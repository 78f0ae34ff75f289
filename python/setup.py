from pathlib import Path

from setuptools import setup

lines = (Path(__file__).parent / "keystate" / "versions.properties").read_text().splitlines()
versions = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))

setup(
    version=versions["keystate"],
    # The jar inside serves one Spark minor version.
    install_requires=[f"pyspark~={versions['spark']}", f"pyarrow>={versions['pyarrow']}"],
)
