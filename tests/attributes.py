"""A result of functions that looks like anything."""

from __future__ import annotations

from typing import Any


class Attributes(dict[str, Any]):
    """Has every attribute, as many such classes do."""

    __getattr__ = dict.get  # type: ignore[assignment]
