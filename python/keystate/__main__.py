"""``python -m keystate``: the ``keystate`` command."""

from __future__ import annotations

import sys

from keystate.tools.command import main

if __name__ == "__main__":
    sys.exit(main())
