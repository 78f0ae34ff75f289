"""What ``keystate report`` and ``keystate serve`` show, and what notebooks show of checkpoints."""

from keystate.tools.page.document import (
    CHARTS_JS,
    PAGE_JS,
    charts_js,
    document,
    page_js,
    simple_page,
)
from keystate.tools.page.tables import tables, text

__all__ = [
    "CHARTS_JS",
    "PAGE_JS",
    "charts_js",
    "document",
    "page_js",
    "simple_page",
    "tables",
    "text",
]
