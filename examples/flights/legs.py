"""The keyed function: what one aircraft's history says about each of its flights.

All durations are whole minutes, so that results can be compared for equality.
"""

from collections.abc import Iterator
from math import isqrt
from typing import Any

from keystate import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedBroadcastProcessFunction,
    MapStateDescriptor,
    ValueStateDescriptor,
)

ROTATION = 600
"""A late arrival can be carried into the next departure only if the two departures are at most this
far apart. In this data the two stop being correlated after some ten hours: a night has passed."""

LEGS = """
    tailnum string, minute long, scheduled long, carrier string, flight long, origin string,
    dest string, visibility double, status string, leg long, route_nth long, gap long, slack long,
    prev_arr_delay long, dep_delay long, arr_delay long, carried long, chain long,
    arrivals long, mean_delay long, delay_sd long, best_delay long, worst_delay long
"""
"""One row per flight:

``visibility``      at the airport in the hour of departure, in miles; null when it is not known
``status``          ``arrived``, ``no arrival`` (left; diverted or not recorded) or ``cancelled``;
                    a cancelled flight is not a leg, does not touch the state, and has nulls below
``leg``             number of this departure of the aircraft from New York: 1, 2, ...
``route_nth``       the same on this route alone
``gap``             from the previous leg's departure to this one
``slack``           what was left for the ground until the scheduled departure, had the aircraft
                    flown there and straight back (twice the previous leg's time in the air)
``prev_arr_delay``  how late the previous leg arrived (negative: early)
``carried``         as much of this departure's delay as the previous leg's late arrival can account
                    for: the smaller of the two, 0 when nothing was late or the gap was over
                    ``ROTATION``, null when the previous arrival is unknown
``chain``           legs in a row, up to this one, with ``carried`` above 0
``arrivals`` ...    this aircraft's arrival delays up to and including this leg: their number, mean
                    (rounded down), standard deviation (rounded down), least and greatest
"""

_NAMES = [column.split()[0] for column in LEGS.split(",")]
_ABOUT = _NAMES[: _NAMES.index("visibility")]
_EMPTY = [None] * (len(_NAMES) - len(_ABOUT) - 2)
_NO_ARRIVALS = (0, None, None, None, None)


class DelayStatistics(AggregateFunction):
    """Exact statistics of delays: count, sum, sum of squares, least, greatest."""

    def create_accumulator(self) -> Any:
        return 0, 0, 0, None, None

    def add(self, value: int, accumulator: Any) -> Any:
        count, total, squares, best, worst = accumulator
        best, worst = (min(best, value), max(worst, value)) if count else (value, value)
        return count + 1, total + value, squares + value * value, best, worst

    def get_result(self, accumulator: Any) -> Any:
        """Number, mean, standard deviation, least, greatest."""
        count, total, squares, best, worst = accumulator
        variance = (count * squares - total * total) // (count * count)
        return count, total // count, isqrt(variance), best, worst

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        if acc_a[0] == 0 or acc_b[0] == 0:
            return acc_b if acc_a[0] == 0 else acc_a
        sums = (a + b for a, b in zip(acc_a[:3], acc_b[:3], strict=True))
        return *sums, min(acc_a[3], acc_b[3]), max(acc_a[4], acc_b[4])


VISIBILITY = MapStateDescriptor("visibility", "string", "double")
"""Miles by airport and hour, as in ``EWR 377000``: what every subtask keeps of the weather."""


class AircraftLegs(KeyedBroadcastProcessFunction):
    """Keyed by aircraft; takes its flights in order of departure, yields one ``LEGS`` row each.

    Keeps the weather, which is broadcast: a micro-batch's weather comes before its flights.
    """

    def open(self, ctx: Any) -> None:
        leg = "leg long, minute long, air_time long, arr_delay long, chain long"
        self.previous = ctx.get_state(
            ValueStateDescriptor("previous", leg, default=(0, None, None, None, 0))
        )
        self.routes = ctx.get_map_state(MapStateDescriptor("routes", "string", "long"))
        delays = "count long, total long, squares long, best long, worst long"
        self.delays = ctx.get_aggregating_state(
            AggregatingStateDescriptor("delays", DelayStatistics(), delays)
        )

    def process_broadcast_element(self, weather: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(VISIBILITY)[f"{weather.origin} {weather.hour}"] = weather.visibility

    def process_element(self, flight: Any, ctx: Any) -> Iterator[Any]:
        about = [getattr(flight, name) for name in _ABOUT]
        hour = f"{flight.origin} {flight.minute // 60}"
        about.append(ctx.get_broadcast_state(VISIBILITY).get(hour))
        if flight.dep_delay is None:
            yield (*about, "cancelled", *_EMPTY)
            return

        leg, minute, air_time, prev_arr_delay, chain = self.previous.value()
        gap = slack = None
        if leg:
            gap = flight.minute - minute
            if air_time is not None:
                slack = flight.scheduled - minute - 2 * air_time
        carried = self.carried_delay(prev_arr_delay, gap, flight.dep_delay)
        leg, chain = leg + 1, chain + 1 if carried else 0
        self.previous.update((leg, flight.minute, flight.air_time, flight.arr_delay, chain))

        route = f"{flight.origin}-{flight.dest}"
        route_nth = (self.routes.get(route) or 0) + 1
        self.routes.put(route, route_nth)

        if flight.arr_delay is not None:
            self.delays.add(flight.arr_delay)
        statistics = self.delays.get() or _NO_ARRIVALS

        status = "no arrival" if flight.arr_delay is None else "arrived"
        delays = (prev_arr_delay, flight.dep_delay, flight.arr_delay, carried, chain)
        yield (*about, status, leg, route_nth, gap, slack, *delays, *statistics)

    def carried_delay(
        self, prev_arr_delay: int | None, gap: int | None, dep_delay: int
    ) -> int | None:
        """See ``carried`` in ``LEGS``."""
        if prev_arr_delay is None or gap is None:
            return None
        if gap > ROTATION:
            return 0
        return max(0, min(prev_arr_delay, dep_delay))
