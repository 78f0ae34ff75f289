"""JVMs of programs that tests start: they live for a minute, start quickly, and leave nothing.

A JVM that a test kills can't delete its temporary files. So they are in a folder of the test run.
``make test`` makes an archive of the classes that such a program loads, by running this module.
With it a program starts in half the time.

KEYSTATE_TEST_COLLECTOR=Z runs the tests with that garbage collector instead of the serial one,
which costs such a program the least.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

import pyspark
from keystate._jvm.session import versions

_FOLDER = "KEYSTATE_TEST_FOLDER"
_ARCHIVE = "KEYSTATE_TEST_CLASSES"

if _FOLDER not in os.environ:  # else a process of this test run has made it
    os.environ[_FOLDER] = tempfile.mkdtemp(prefix="keystate-")
    atexit.register(shutil.rmtree, os.environ[_FOLDER], ignore_errors=True)
    # For the programs. This process goes on with the system's own folder.
    os.environ["TMPDIR"] = os.environ[_FOLDER]
    # There commands keep archives of their own; the user's stay as they are.
    os.environ["XDG_CACHE_HOME"] = os.path.join(os.environ[_FOLDER], "cache")


def _options() -> str:
    temporary = f"-Djava.io.tmpdir={os.environ[_FOLDER]}"
    archive = os.environ.get(_ARCHIVE)
    if not archive:
        return temporary
    # A JVM with other jars goes without the archive. It says nothing of that.
    use = "SharedArchiveFile" if os.path.exists(archive) else "ArchiveClassesAtExit"
    return f"{temporary} -XX:{use}={archive} -Xlog:disable"


#: Whether this environment is that of the Spark that all tests run on.
ON_DEFAULT_SPARK = pyspark.__version__ == versions()["sparks"].split()[0]

_collector = os.environ.get("KEYSTATE_TEST_COLLECTOR", "Serial")
#: Most code of a test runs a few times: to optimize it takes a fifth of all CPU time. The cache is
#: as large as with the optimizer: a fifth of that throws code away and compiles it again.
COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
OPTIONS = f"{_options()} {COMPILER} -XX:+Use{_collector}GC"
os.environ["SPARK_SUBMIT_OPTS"] = OPTIONS
#: Of the JVM that only writes the command line of the other one.
os.environ["SPARK_LAUNCHER_OPTS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

#: To generate code and compile it takes a sixth of the CPU time of queries this small, and Keystate
#: generates none. On Sparks that are not the default one, and with SLOW=1, Spark does as for users.
CODEGEN: dict[str, str] = {}
if ON_DEFAULT_SPARK and not os.environ.get("SLOW"):
    CODEGEN |= {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }

#: What Spark forks Python workers from. They have its imports, which take longer than most queries.
DAEMON = ("spark.python.daemon.module", "tests.python_daemon")

#: For the environment of a program that makes a session.
ENVIRONMENT = {"SPARK_SUBMIT_OPTS": OPTIONS}


def session_environment() -> dict[str, str]:
    """The environment of a program whose session has these settings of the tests' own.

    Not for tests of what is there without them: where workers come from, and which path they have.
    """
    conf = {"spark.ui.enabled": "false", **dict([DAEMON]), **CODEGEN}
    arguments = " ".join(f"--conf {key}={value}" for key, value in conf.items())
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return {
        **ENVIRONMENT,
        "PYSPARK_SUBMIT_ARGS": f"{arguments} pyspark-shell",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }


if __name__ == "__main__":
    from keystate.tools import warm_up

    warm_up.run({})
