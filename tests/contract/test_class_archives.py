"""Programs of tests keep archives of classes where all their temporary files are."""

from __future__ import annotations

import os
from pathlib import Path

from keystate._jvm.class_cache import session_archive


def test_the_users_cache_is_left_alone() -> None:
    folder = Path(os.environ["KEYSTATE_TEST_FOLDER"])
    assert Path(os.environ["XDG_CACHE_HOME"]).is_relative_to(folder)
    archive = session_archive()  # None where there is no Java
    assert archive is None or archive.is_relative_to(folder)
