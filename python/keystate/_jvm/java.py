"""Which Java a JVM is started with."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from keystate.errors import ConfigurationError


def found_java() -> str:
    """The Java that Spark would start: that of ``JAVA_HOME``, else the first one on the path.

    Raises:
        ConfigurationError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(os.path.join(home, "bin", "java") if home else "java")
    if java is None:
        raise no_java(f"there is no {home}/bin/java" if home else "none on the path")
    return java


def told_version(java: str) -> str:
    """The version that a Java reports.

    Raises:
        ConfigurationError: the Java does not run.
    """
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as e:
        raise no_java(f"{java} does not run: {e}") from None
    return told.stderr + told.stdout


def identity(java: str) -> list[str]:
    """Values that differ for each Java, even if a new one is installed into the same folder.

    Raises:
        ConfigurationError: the Java does not run.
    """
    java = os.path.realpath(java)
    modules = Path(java).parents[1] / "lib" / "modules"
    # Without them it is a program that chooses one of several, each time it is started.
    return [java, str(modules) if modules.exists() else told_version(java)]


def no_java(reason: str) -> ConfigurationError:
    """The error for a place where no JVM can be started."""
    return ConfigurationError(
        f"Java did not start ({reason}): Spark needs Java 17 or newer, by JAVA_HOME or on the "
        "path; --verbose shows what it says",
        code="KEYSTATE_CONFIGURATION",
    )
