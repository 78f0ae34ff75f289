"""What this process and its descendants take of the machine; needs nothing but Python."""

from __future__ import annotations

import os
import time
from pathlib import Path

LOOK_SECONDS = 0.5


def cpu_seconds(of: int | None = None) -> float:
    """CPU time so far of a process and its descendants; 0 where there is no /proc.

    Args:
        of: the process; by default, this one's descendants alone count.
    """
    stats = _descendants()
    if of is not None:
        stats = _tree(stats, of)
    ticks = sum(sum(map(int, stat[11:15])) for stat in stats.values())
    return ticks / os.sysconf("SC_CLK_TCK")


def busy(seconds: float, of: int | None = None) -> float:
    """How much of a core a process and its descendants take for so long, see `cpu_seconds`.

    Those that end meanwhile count until the last look before. Nothing else tells of them: Spark's
    daemon of Python workers does not wait for these, so their time is not in its own.
    """
    begin = time.perf_counter()
    first = _own_ticks(of)
    last = dict(first)
    while (left := begin + seconds - time.perf_counter()) > 0:
        time.sleep(min(left, LOOK_SECONDS))
        last |= _own_ticks(of)
    ticks = sum(last.values()) - sum(first.values())
    return ticks / os.sysconf("SC_CLK_TCK") / (time.perf_counter() - begin)


def _own_ticks(of: int | None) -> dict[tuple[int, str], int]:
    """The CPU time of each process alone, by its id and its start: ids are used again."""
    stats = _descendants()
    if of is not None:
        stats = _tree(stats, of)
    return {(pid, stat[19]): sum(map(int, stat[11:13])) for pid, stat in stats.items()}


def memory(of: int) -> float:
    """MB that a process and its descendants have in memory now; what they share counts once.

    Args:
        of: this process, or a descendant of it.
    """
    total = 0.0
    for pid in {of, *_tree(_descendants(), of)}:
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += int(rollup.split("\nPss:")[1].split()[0]) / 1024
    return total


def worker_memory() -> float:
    """The most MB that a Python worker has had in memory so far."""
    peaks = [0.0]
    for pid in _descendants():
        try:
            if "python" in os.readlink(f"/proc/{pid}/exe"):
                status = Path(f"/proc/{pid}/status").read_text()
                peaks.append(int(status.split("VmHWM:")[1].split()[0]) / 1024)
        except (OSError, IndexError):
            continue
    return max(peaks)


def _descendants() -> dict[int, list[str]]:
    """The fields of /proc/<pid>/stat after the name, by process."""
    stats: dict[int, list[str]] = {}
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            stat = (path / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        stats[int(path.name)] = stat
        children.setdefault(int(stat[1]), []).append(int(path.name))
    found: dict[int, list[str]] = {}
    left = children.get(os.getpid(), [])
    while left:
        pid = left.pop()
        found[pid] = stats[pid]
        left += children.get(pid, [])
    return found


def _tree(stats: dict[int, list[str]], root: int) -> dict[int, list[str]]:
    """A process and its descendants, of those that `_descendants` found."""
    found: dict[int, list[str]] = {}
    left = {root}
    while left:
        found |= {pid: stats[pid] for pid in left if pid in stats}
        left = {pid for pid, stat in stats.items() if int(stat[1]) in left}
    return found
