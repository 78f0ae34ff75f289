"""Versions of the documentation side by side: docs/site/publish.py and docs/site/versions.js."""

from __future__ import annotations

import json
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

SITE = Path(__file__).resolve().parents[1] / "docs" / "site"

# As much of a browser as the script needs: a page that is opened as a file.
BROWSER = """
const fs = require("fs"), vm = require("vm");
const [script, folder, page, chosen] = process.argv.slice(1);
const shown = [], loaded = [];
const context = {
  URL,
  location: {href: `file://${folder}/${page}`},
  Option: function (text, value, _, selected) { Object.assign(this, {value, selected}); },
  document: {
    currentScript: {src: `file://${folder}/${page.split("/")[0]}/site/versions.js`},
    createElement: () => ({options: [], add(option) { this.options.push(option); }}),
    querySelector: () => ({after: (one) => shown.push(one)}),
    head: {append: (one) => loaded.push(one.src)},
  },
};
context.window = context;
vm.createContext(context);
vm.runInContext(fs.readFileSync(script, "utf8"), context);
vm.runInContext(fs.readFileSync(new URL(loaded[0]), "utf8"), context);
const select = shown[0], options = select.options.map((one) => [one.value, one.selected]);
select.value = chosen;
select.onchange();
console.log(JSON.stringify({options, at: context.location.href}));
"""


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A page was renamed after the first version."""
    publish = runpy.run_path(str(SITE / "publish.py"))["publish"]
    folder = tmp_path / "all"
    for version, page in (("0.9.0", "old"), ("0.10.0", "new"), ("0.11.0.dev0", "new")):
        site = tmp_path / version
        for name in ("index", "guides/same", page):
            (site / f"{name}.html").parent.mkdir(parents=True, exist_ok=True)
            (site / f"{name}.html").write_text(version)
        there = publish(site, version, folder)
    assert there == ["0.11.0.dev0", "0.10.0", "0.9.0"]
    assert publish(site, version, folder) == there
    return folder


def test_each_version_has_its_pages(published: Path) -> None:
    assert "url=0.10.0/index.html" in (published / "index.html").read_text()
    assert (published / "0.9.0" / "old.html").read_text() == "0.9.0"


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node to run a page's script")
@pytest.mark.parametrize(
    ("page", "chosen", "then"),
    [
        ("0.10.0/guides/same.html", "0.9.0", "0.9.0/guides/same.html"),
        ("0.10.0/new.html", "0.9.0", "0.9.0/index.html"),
        ("0.9.0/index.html", "0.11.0.dev0", "0.11.0.dev0/index.html"),
    ],
)
def test_a_page_leads_to_itself_in_another_version(
    page: str, chosen: str, then: str, published: Path
) -> None:
    command = ["node", "-e", BROWSER, str(SITE / "versions.js"), str(published), page, chosen]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    found: dict[str, Any] = json.loads(run.stdout)
    own = page.split("/")[0]
    versions = ["0.11.0.dev0", "0.10.0", "0.9.0"]
    assert found["options"] == [[version, version == own] for version in versions]
    assert found["at"] == f"file://{published}/{then}"
