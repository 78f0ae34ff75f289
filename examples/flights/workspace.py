"""The folders of one run: its input, its result and, unless put elsewhere, its checkpoint."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from .prepare import write_input


@dataclass(frozen=True)
class Workspace:
    """Where a run keeps its files, and how its input was cut (which a checkpoint depends on)."""

    out: Path
    checkpoint: Path
    days: int | None = None
    days_per_file: int = 7

    @property
    def input(self) -> Path:
        """The flights, one Parquet file per micro-batch."""
        return self.out / "input"

    @property
    def weather(self) -> Path:
        """The weather, cut likewise."""
        return self.out / "weather"

    @property
    def result(self) -> Path:
        """What the query wrote; read it with Spark, which knows from its log what is committed."""
        return self.out / "result"

    def prepare(self) -> None:
        """Writes the input, or finds what an earlier run with the same settings left."""
        settings = json.dumps(
            {"days": self.days, "days_per_file": self.days_per_file, "weather": True}
        )
        record = self.out / "settings.json"
        if self.input.exists():
            if record.read_text() != settings:
                raise SystemExit(
                    f"{self.out} holds a run with other settings, {record.read_text()}:"
                    " start again with --fresh, or choose another --out."
                )
            return
        self.out.mkdir(parents=True, exist_ok=True)
        record.write_text(settings)
        write_input(self.input, self.weather, self.days, self.days_per_file)

    def clear(self) -> None:
        """Deletes what earlier runs left: the folders named here, nothing else."""
        for folder in (self.input, self.weather, self.result, self.checkpoint):
            shutil.rmtree(folder, ignore_errors=True)
        (self.out / "settings.json").unlink(missing_ok=True)

    def batches(self) -> int:
        """How many micro-batches the whole input takes."""
        return len(list(self.input.glob("*.parquet")))

    def committed(self) -> int:
        """How many micro-batches the query has committed."""
        commits = self.checkpoint / "commits"
        return sum(entry.name.isdigit() for entry in commits.iterdir()) if commits.exists() else 0
