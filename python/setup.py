import os
import sysconfig
from pathlib import Path

from setuptools import Extension, setup

PACKAGE = Path(__file__).parent / "keystate"

lines = (PACKAGE / "versions.properties").read_text().splitlines()
versions = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))

# The package is for the Sparks whose jars are in it, and, in a clone, for the one that the Makefile
# builds for. They are minor lines that follow each other.
sparks = sorted(versions["sparks"].split(), key=lambda release: list(map(int, release.split("."))))


def line_of(release):
    return release.rpartition(".")[0]


def has_jar(release):
    line = line_of(release)
    return line == os.environ.get("SPARK") or any(PACKAGE.glob(f"jars/keystate-spark{line}_*.jar"))


served = [release for release in sparks if has_jar(release)] or sparks
major, minor = map(int, served[-1].split(".")[:2])

# Compiled if there is a C compiler. Without it, or with KEYSTATE_NATIVE=0, all is done in Python.
# With KEYSTATE_NATIVE=1 it is an error if it can't be compiled.
# A Python without its global lock takes what is in Python, and can't have it compiled.
wanted = os.environ.get("KEYSTATE_NATIVE")
if sysconfig.get_config_var("Py_GIL_DISABLED"):
    if wanted == "1":
        raise SystemExit(
            "KEYSTATE_NATIVE=1: what is compiled relies on the lock that a free-threaded Python "
            "does without. Take the usual build of this Python, or leave the variable out"
        )
    wanted = "0"
native = Extension(
    "keystate._compiled.native", ["keystate/_compiled/native.c"], optional=wanted != "1"
)

setup(
    version=versions["keystate"],
    ext_modules=[] if wanted == "0" else [native],
    install_requires=[
        f"pyspark>={line_of(served[0])},<{major}.{minor + 1}",
        f"pyarrow>={versions['pyarrow']}",
        f"numpy>={versions['numpy']}",
    ],
)
