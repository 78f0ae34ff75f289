"""A headless Chromium of the distribution, where there is one."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")


class Browser:
    """Opens pages. Each time with a profile of its own, and without the network's names."""

    def __init__(self, command: str) -> None:
        self._command = command

    @staticmethod
    def find() -> Browser | None:
        """The one that is installed, if any is."""
        found = [path for path in map(shutil.which, NAMES) if path is not None]
        return Browser(found[0]) if found else None

    def dom(self, url: str, width: int = 1280) -> str:
        """The page's content once its scripts have run."""
        return self._run(url, width, "--dump-dom")

    def screenshot(self, url: str, to: Path, width: int, height: int, dark: bool = False) -> None:
        """A picture of the page."""
        theme = ["--force-dark-mode", "--blink-settings=preferredColorScheme=0"] if dark else []
        self._run(url, width, f"--screenshot={to}", *theme, height=height)

    def _run(self, url: str, width: int, *options: str, height: int = 4000) -> str:
        with tempfile.TemporaryDirectory(prefix="keystate-browser-") as profile:
            command = [
                self._command,
                "--headless=new",
                "--no-sandbox",  # containers let root start it only so
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
                "--virtual-time-budget=8000",
                f"--user-data-dir={profile}",
                f"--window-size={width},{height}",
                *options,
                url,
            ]
            done = subprocess.run(command, capture_output=True, timeout=120, check=True)
        return done.stdout.decode()
