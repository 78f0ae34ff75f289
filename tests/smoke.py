"""What a new user does, with a wheel, in an empty environment outside of the clone.

python tests/smoke.py WHEEL [REQUIREMENT...]
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SNIPPET = re.compile(r"^```python\n(.*?)^```$\s*(?:It prints\s*)?^```text\n(.*?)^```$", re.M | re.S)


def main(wheel: str, *requirements: str) -> None:
    """Installs the wheel, and runs the examples and the commands that need nothing else."""
    began = time.monotonic()
    examples = [
        SNIPPET.search((ROOT / name).read_text()) for name in ("README.md", "python/README.md")
    ]
    start = (ROOT / "docs" / "start.md").read_text()
    with tempfile.TemporaryDirectory(prefix="keystate-smoke-") as folder:
        venv.create(f"{folder}/venv", with_pip=True)
        binaries = f"{folder}/venv/bin"
        # Nothing of the clone, nor of the caller's environment.
        kept = {
            k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "SPARK", "VIRT"))
        }
        kept["PATH"] = f"{binaries}:{kept['PATH']}"

        def run(*command: str) -> str:
            print("$", *command, flush=True)
            done = subprocess.run(command, cwd=folder, env=kept, stdout=subprocess.PIPE, text=True)
            print(done.stdout, end="", flush=True)
            if done.returncode != 0:
                sys.exit(f"failed with {done.returncode}: {' '.join(command)}")
            return done.stdout

        run("pip", "install", "--quiet", str(Path(wheel).resolve()), *requirements)
        run("pip", "check")
        for i, example in enumerate(examples):
            assert example is not None
            Path(folder, f"example{i}.py").write_text(example[1])
            printed = run("python", f"example{i}.py")
            assert printed == example[2], f"expected {example[2]!r}"
        # docs/start.md from top to bottom, then its commands for a terminal.
        program = "".join(re.findall(r"^```python\n(.*?)^```$", start, re.M | re.S))
        Path(folder, "start.py").write_text(f"{program}print(checkpoint)\n")
        *printed, checkpoint = run("python", "start.py").splitlines()
        shown = "".join(re.findall(r"^```text\n(.*?)^```$", start, re.M | re.S))
        assert printed == shown.splitlines(), f"expected {shown!r}"
        commands = re.findall(r"^keystate .*CHECKPOINT.*$", start, re.M)
        assert len(commands) == 3
        for command in commands:
            run(*command.replace("CHECKPOINT", checkpoint).split())
        assert Path(folder, "page.html").exists()
        run("keystate", "savepoint", checkpoint, "copy")
        version = re.search(r"keystate-([^-]+)-", Path(wheel).name)
        assert version is not None
        assert run("keystate", "--version").strip() == version[1]
        assert "problem" not in run("keystate", "doctor")
        assert "each click was counted once" in run("keystate", "demo", "--seconds", "20")
    print(f"well, after {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main(*sys.argv[1:])
