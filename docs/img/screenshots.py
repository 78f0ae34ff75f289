"""Makes the pictures of the page that docs/operations.md shows, with an installed Chromium.

python -m docs.img.screenshots CHECKPOINT
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from keystate import _bridge, _local, admin
from keystate._page import document
from PIL import Image

from tests.query.browser import Browser

HERE = Path(__file__).parent
SHOWN = "/data/query/checkpoint"


def main(checkpoint: str) -> None:
    browser = Browser.find()
    assert browser is not None, "no Chromium is installed"
    with _local.local_reader(verbose=False) as reader:
        found = admin.inspect(checkpoint, spark=reader)  # type: ignore[arg-type]
        statistics = _bridge.statistics(reader, found)  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory() as folder:
        page, phone = Path(folder, "page.html"), Path(folder, "phone.html")
        page.write_text(document({**found, "checkpoint": SHOWN}, statistics, []))
        # Chromium makes no window that is as narrow as a phone.
        phone.write_text(
            '<body style="margin:0"><iframe src="page.html" '
            'style="border:0;width:390px;height:1130px"></iframe>'
        )
        browser.screenshot(page.as_uri(), HERE / "page.png", 1180, 1900)
        browser.screenshot(phone.as_uri(), HERE / "page-phone.png", 500, 1130, dark=True)
    for name, width in (("page.png", 1180), ("page-phone.png", 390)):
        picture = Image.open(HERE / name)
        picture.crop((0, 0, width, picture.height)).quantize(200).save(HERE / name, optimize=True)


if __name__ == "__main__":
    main(sys.argv[1])
