"""Times that Spark has and Python has not: before the year 1, and after 9999."""

from __future__ import annotations

import datetime
from typing import Any, NoReturn

_MICROS_A_DAY = 86_400_000_000
#: After so many days the calendar begins anew.
_DAYS_OF_400_YEARS = 146_097
_EPOCH = datetime.date(1970, 1, 1)


class BeyondPython:
    """Stands for a time that Python can't hold. It can be kept and emitted as it is.

    All else that is done with it is an error, which is that of the current row. So a row that has
    one is processed unless the function looks at it.

    Args:
        number: days since the epoch of a date, microseconds of a time.
        kind: its type in DDL.
        column: the column or field that it is in; empty if it is in none.
    """

    __slots__ = ("column", "kind", "number")

    #: As of a time that comes once.
    fold = 0

    def __init__(self, number: int, kind: str, column: str) -> None:
        self.number = number
        self.kind = kind
        self.column = column

    def text(self) -> str:
        """The time as Spark writes it; an instant in UTC."""
        if self.kind == "date":
            return _date(self.number)
        days, micros = divmod(self.number, _MICROS_A_DAY)
        clock = (datetime.datetime.min + datetime.timedelta(microseconds=micros)).time()
        return f"{_date(days)}T{clock.isoformat()}{'+00:00' if self.kind == 'timestamp' else ''}"

    def __repr__(self) -> str:
        return f"<{self.kind} {self.text()}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BeyondPython):
            return NotImplemented
        return (self.number, self.kind) == (other.number, other.kind)

    def __hash__(self) -> int:
        return hash((self.number, self.kind))

    def __reduce__(self) -> Any:
        return BeyondPython, (self.number, self.kind, self.column)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(datetime.datetime, name):
            raise AttributeError(name)
        self._refuse()

    def _refuse(self, *_: Any) -> NoReturn:
        where = f" in column '{self.column}'" if self.column else ""
        raise ValueError(
            f"the {self.kind} {self.text()}{where} is before or after the years that Python's "
            "datetime has, 1 to 9999 in local time: it can be kept and emitted as it is, and "
            "nothing else; replace it before keyed(), for instance by null"
        )

    __str__ = __format__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __add__ = __radd__ = __sub__ = __rsub__ = _refuse


def _date(days: int) -> str:
    cycles, rest = divmod(days, _DAYS_OF_400_YEARS)
    date = _EPOCH + datetime.timedelta(days=rest)
    year = date.year + 400 * cycles
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04}-{date.month:02}-{date.day:02}"
