"""What Scala and Python must know alike, as data: files of this package that the jar has too."""

from __future__ import annotations

import json
import pkgutil
from typing import Any


def read(name: str) -> dict[str, Any]:
    """The entries of ``<name>.json``, by their names. The package may be in an archive."""
    facts: dict[str, Any] = json.loads(pkgutil.get_data("keystate", f"{name}.json") or "{}")
    return facts
