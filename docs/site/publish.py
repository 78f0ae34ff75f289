"""Puts the site that was built beside those of other versions, each in a folder of its own.

python docs/site/publish.py FOLDER

Pages of every version then have a choice of the others, also those that were put there before. The
folder works as it is: on a web server, or opened as files.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

REDIRECT = """<!doctype html>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url={version}/index.html">
<title>Keystate</title>
<a href="{version}/index.html">Keystate {version}</a>
"""


def publish(site: Path, version: str, folder: Path) -> list[str]:
    """Copies a site; returns the versions that are there now, newest first."""
    if not (site / "index.html").exists():
        sys.exit(f"there is no site in {site}: run make docs")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / version, ignore_errors=True)
    shutil.copytree(site, folder / version)
    found = [path.parent for path in folder.glob("*/index.html")]
    pages = {
        one.name: sorted(str(page.relative_to(one)) for page in one.rglob("*.html"))
        for one in sorted(found, key=lambda one: _order(one.name), reverse=True)
    }
    (folder / "versions.js").write_text(f"keystateVersions({json.dumps(pages)});\n")
    releases = [name for name in pages if "dev" not in name]
    (folder / "index.html").write_text(REDIRECT.format(version=(releases or list(pages))[0]))
    return list(pages)


def _order(version: str) -> tuple[list[int], bool]:
    """What is in development comes before its release."""
    release = version.split(".dev")[0]
    return [int(number) for number in re.findall(r"\d+", release)], release == version


def main() -> None:
    """Publishes out/site under the version of this clone."""
    properties = (ROOT / "python" / "keystate" / "versions.properties").read_text()
    (version,) = re.findall(r"^keystate=(.*)$", properties, re.M)
    print(*publish(ROOT / "out" / "site", version, Path(sys.argv[1])))


if __name__ == "__main__":
    main()
