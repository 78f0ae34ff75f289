"""The tutorial notebook runs from top to bottom, as in Jupyter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests import jvm_archive

NOTEBOOK = Path(__file__).parents[2] / "examples" / "tutorial.ipynb"


@pytest.mark.turns
@pytest.mark.spark
def test_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its asserts hold, and each run of the query draws a chart."""
    for name, value in jvm_archive.session_environment().items():
        monkeypatch.setenv(name, value)
    notebook: Any = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=150, resources={"metadata": {"path": tmp_path}}).execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    outputs = [output for cell in cells for output in cell.outputs]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 2
    shown = [output.get("data", {}).get("text/html", "") for output in outputs]
    assert sum("<h3>Key" in html for html in shown) == 2, "the history of a key, and a replay"
    printed = "".join(output.get("text", "") for output in cells[-1].outputs)
    assert "every file is as it was written" in printed


def test_it_is_stored_without_outputs() -> None:
    notebook: Any = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
