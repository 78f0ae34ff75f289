"""What mkdocs does beyond its configuration: pages from outside of docs/, links, and a chart."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from posixpath import normpath, relpath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]

#: Pages of the site that are files of the repository outside of docs/.
OUTSIDE = {
    "readme.md": "README.md",
    "benchmarks.md": "bench/README.md",
    "benchmarks-history.md": "bench/history.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "code-of-conduct.md": "CODE_OF_CONDUCT.md",
    "security-policy.md": "SECURITY.md",
    "notice.md": "NOTICE",
}

#: The Python reference: title, and the modules, or classes, whose docstrings make a page.
REFERENCE = {
    "session": ("Session", ["_jvm.session"]),
    "streams": (
        "Streams",
        [
            "streams",
            "_operators.side_outputs",
            "functions.dead_letters",
            "live.replay.dead_letters",
        ],
    ),
    "functions": ("Functions", ["functions"]),
    "windows": ("Windows", ["windows"]),
    "event_patterns": ("Patterns", ["patterns", "streams.patterns"]),
    "state": ("State", ["state"]),
    "ttl": ("Time to live", ["state.ttl"]),
    "sources": ("Sources", ["sources"]),
    "sinks": ("Sinks", ["functions.two_phase", "kafka"]),
    "runtime": ("Metrics and context", ["functions.runtime", "functions.metrics", "tracing"]),
    "backends": ("Backends", ["backends"]),
    "admin": (
        "Checkpoints",
        [
            "admin",
            "checkpoints.savepoints",
            "checkpoints.changes",
            "checkpoints.reports.CheckpointReport",
            "checkpoints.editor.CheckpointEditor",
        ],
    ),
    "elasticity": ("Elastic queries", ["live.elastic", "live.stopping"]),
    "canaries": (
        "Canaries",
        ["live.canary"],
    ),
    "batch_replays": ("Replays", ["live.replay.replay"]),
    "errors": ("Errors", ["errors"]),
    "testing": ("Testing", ["testing"]),
}

LINK = re.compile(r"(\]\()([^)#\s:]+)(#[^)\s]*)?(\))")
CODE = re.compile(r"(^```.*?^```|`[^`\n]*`)", re.M | re.S)
ROLE = re.compile(r":(?:class|func|meth|mod|attr):<code>~?([\w.]+)</code>")


def on_config(config: Any) -> Any:
    """Shows the version."""
    properties = (ROOT / "python" / "keystate" / "versions.properties").read_text()
    version = re.search(r"^keystate=(.*)$", properties, re.M)
    config.copyright = f"Keystate {version[1] if version else ''} · Apache-2.0"
    return config


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that are not in docs/."""
    for uri, name in OUTSIDE.items():
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / name)))
    for example in sorted((ROOT / "examples").glob("[a-z]*.*")):
        if example.suffix == ".ipynb":
            text = _notebook(json.loads(example.read_text()))
        else:
            text = f"# {example.name}\n\n```python\n{example.read_text()}```\n"
        files.append(File.generated(config, f"examples/{example.stem}.md", content=text))
    for page, (title, modules) in REFERENCE.items():
        text = f"# {title}\n\n" + "".join(map(_reference, modules))
        files.append(File.generated(config, f"python/{page}.md", content=text))
    return files


def _reference(name: str) -> str:
    """What makes the docstrings of a module a part of a page; of a class with a heading."""
    is_class = name.rpartition(".")[2][0].isupper()
    heading = "    options: {show_root_heading: true}\n" if is_class else ""
    return f"::: keystate.{name}\n{heading}\n"


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turns links to files of the repository into links to pages of the site."""
    uri = page.file.src_uri
    source = OUTSIDE.get(uri, f"docs/{uri}")
    if uri == "benchmarks.md":
        markdown = _with_chart(markdown)

    def link(found: re.Match[str]) -> str:
        target = normpath(f"{source}/../{found[2]}")
        there = _page_of(target)
        if there is None:
            return found[0]  # mkdocs says that it leads nowhere
        return f"{found[1]}{relpath(there, str(Path(uri).parent))}{found[3] or ''}{found[4]}"

    parts = CODE.split(markdown)
    return "".join(part if i % 2 else LINK.sub(link, part) for i, part in enumerate(parts))


def _page_of(path: str) -> str | None:
    """The page of a file of the repository, if it has one."""
    for uri, name in OUTSIDE.items():
        if name == path:
            return uri
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if re.fullmatch(r"examples/\w+\.(py|ipynb)", path):
        return f"{path.rpartition('.')[0]}.md"
    return None


def _notebook(notebook: dict[str, Any]) -> str:
    """A notebook as a page, without outputs."""
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]
    return "\n\n".join(
        text if kind == "markdown" else f"```python\n{text}\n```" for kind, text in cells
    )


def on_page_content(content: str, page: Any, config: Any, files: Files) -> str:
    """Shows what docstrings refer to by its name."""
    return ROLE.sub(lambda found: f"<code>{found[1].rpartition('.')[2]}</code>", content)


def _with_chart(markdown: str) -> str:
    """Draws W1 of bench/results.json above the figures."""
    results = json.loads((ROOT / "bench" / "results.json").read_text())
    rows = results["figures"]["tables"][0]["rows"]
    chart = _bars([(row[0].replace("`", ""), float(row[1])) for row in rows])
    before, head, after = markdown.partition("## Figures\n")
    return f"{before}{head}\n{chart}\n{after}"


def _bars(rows: list[tuple[str, float]]) -> str:
    """Bars of µs a row in W1, as long as its logarithm."""
    from math import log10

    longest = max(us for _, us in rows)
    row_px, left = 40, 8
    lines = []
    for i, (name, us) in enumerate(rows):
        width = 20 + 400 * log10(us / 0.5) / log10(longest / 0.5)
        kind = "ours" if name.startswith("Keystate") else "theirs"
        y = i * row_px
        lines.append(
            f'<text x="{left}" y="{y + 14}">{html.escape(name)}: {us:g} µs</text>'
            f'<rect class="{kind}" x="{left}" y="{y + 19}" width="{width:.0f}" height="13" rx="2"/>'
        )
    return (
        '<figure class="bars" markdown="0"><figcaption>W1: µs a row. '
        "The scale is logarithmic; shorter is better.</figcaption>"
        f'<svg viewBox="0 0 450 {row_px * len(rows)}" role="img" '
        f'aria-label="W1, µs a row">{"".join(lines)}</svg></figure>\n'
    )
