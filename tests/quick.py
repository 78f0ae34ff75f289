"""JVMs of programs that tests start: they live for a minute, start quickly, and leave nothing.

A JVM that a test kills can't delete its temporary files. So they are in a folder of the test run.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

_FOLDER = "KEYSTATE_TEST_FOLDER"

if _FOLDER not in os.environ:  # else a process of this test run has made it
    os.environ[_FOLDER] = tempfile.mkdtemp(prefix="keystate-")
    atexit.register(shutil.rmtree, os.environ[_FOLDER], ignore_errors=True)
    # For the programs. This process goes on with the system's own folder.
    os.environ["TMPDIR"] = os.environ[_FOLDER]
    os.environ["SPARK_SUBMIT_OPTS"] = f"-Djava.io.tmpdir={os.environ[_FOLDER]}"

OPTIONS = f"-XX:TieredStopAtLevel=1 -Djava.io.tmpdir={os.environ[_FOLDER]}"

#: For the environment of a program that makes a session.
ENVIRONMENT = {"SPARK_SUBMIT_OPTS": OPTIONS}
