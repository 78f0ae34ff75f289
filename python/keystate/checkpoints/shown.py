"""Results that print themselves and that notebooks show, with :mod:`keystate.tools.page`."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def renderer() -> Any:
    """The module that renders each class of reports.

    By its name, and when it is needed: it imports these classes, and not they it.
    """
    return import_module("keystate.tools.page.rendering")


class Shown:
    """A result that prints itself, and that a notebook shows."""

    def __str__(self) -> str:
        text: str = renderer().as_text(self)
        return text

    def _repr_html_(self) -> str:
        html: str = renderer().as_html(self)
        return html
