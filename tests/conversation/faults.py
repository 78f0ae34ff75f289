"""Faults put into the worker on purpose, to see that the simulated conversation finds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from keystate._worker.messages.state_client import StateClient
from keystate._worker.state.lists import WorkerListState
from keystate._worker.state.maps import MapCell, PlainMapState, RemoteMapCell
from keystate._worker.state.sorted_maps import WorkerSortedMapState
from keystate._worker.state.timers import WorkerTimers
from keystate._worker.state.worker_state import WorkerState


def _put(of: type, name: str, make: Callable[[Any], Any]) -> None:
    setattr(of, name, make(getattr(of, name)))


def _not_carried() -> None:
    def make(real: Any) -> Any:
        return lambda self, message, carried: real(self, message, None)

    _put(WorkerState, "load", make)


def _timers_not_carried() -> None:
    def make(real: Any) -> Any:
        return lambda self, new_keys, carried: real(self, new_keys, None)

    _put(WorkerTimers, "load", make)


def _forgets_returned() -> None:
    def make(real: Any) -> Any:
        def encode(self: Any, slots: list[int]) -> Any:
            columns = real(self, slots)
            for slot in slots:
                self._cells[slot].returned = (-1, 0, [])
            return columns

        return encode

    _put(WorkerListState, "_encode_changes", make)


def _forgets_absent() -> None:
    def make(real: Any) -> Any:
        def encode(self: Any, slots: list[int]) -> Any:
            columns = real(self, slots)
            for slot in slots:
                if isinstance(self._cells[slot], RemoteMapCell):
                    self._cells[slot].absent.clear()
            return columns

        return encode

    _put(PlainMapState, "_encode_changes", make)


def _clears_less() -> None:
    def make(real: Any) -> Any:
        def encode(self: Any, slots: list[int]) -> Any:
            cells: list[MapCell] = [self._cells[slot] for slot in slots]
            for cell in cells:
                cell.replaced = False
            return real(self, slots)

        return encode

    _put(PlainMapState, "_encode_changes", make)


def _leaves_out_a_slot() -> None:
    def make(real: Any) -> Any:
        return lambda self, start, stop: real(self, start, max(start + 1, stop - 1))

    _put(WorkerState, "changes", make)


def _fires_deleted() -> None:
    def make(real: Any) -> Any:
        def take(self: Any, slot: int, domain: int, time: int) -> bool:
            self.set(slot, domain, time, False)
            return True

        return take

    _put(WorkerTimers, "take", make)


def _one_page() -> None:
    def make(real: Any) -> Any:
        def pages(self: Any, *arguments: Any) -> Iterator[Any]:
            for page in real(self, *arguments):
                yield page
                return

        return pages

    _put(PlainMapState, "_fetched_pages", make)


def _first_page_counts() -> None:
    def make(real: Any) -> Any:
        def read(self: Any, state: int, slot: int) -> Any:
            pages = list(self.scan(state, slot, [], None, False, 10_000))
            return [columns[0] for columns, _, _ in pages], pages[0][2]

        return read

    _put(StateClient, "read_list", make)


def _exhausts_too_soon() -> None:
    def make(real: Any) -> Any:
        def fetch(self: Any, cell: Any) -> None:
            real(self, cell)
            cell.exhausted = True

        return fetch

    _put(WorkerSortedMapState, "_fetch_first", make)


def _asks_for_first_generation() -> None:
    def make(real: Any) -> Any:
        def exchange(self: Any, *arguments: Any) -> Any:
            self.generation = 0
            return real(self, *arguments)

        return exchange

    _put(StateClient, "_exchange", make)


#: By name.
FAULTS: dict[str, Callable[[], None]] = {
    "carried": _not_carried,
    "carried_timers": _timers_not_carried,
    "returned": _forgets_returned,
    "absent": _forgets_absent,
    "cleared": _clears_less,
    "slot": _leaves_out_a_slot,
    "deleted": _fires_deleted,
    "page": _one_page,
    "first_page": _first_page_counts,
    "exhausted": _exhausts_too_soon,
    "generation": _asks_for_first_generation,
}
