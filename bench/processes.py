"""What this process and its descendants take of the machine; needs nothing but Python."""

from __future__ import annotations

import os
from pathlib import Path


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
