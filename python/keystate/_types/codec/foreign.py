"""Values of NumPy and pandas, as Python has them."""

from __future__ import annotations

import datetime
import sys
from typing import Any

_TIMES = (datetime.date, datetime.timedelta)
_FINER_THAN_MICROSECONDS = {"ns", "ps", "fs", "as"}


def of_python(value: Any) -> Any:
    """The Python value that one of NumPy or pandas stands for; any other value as it is.

    What pandas has for a missing value is ``None``. A time that Python can't hold exactly stays as
    it is, so that it does not fit.
    """
    module = type(value).__module__.partition(".")[0]
    if module == "pandas":
        return None if type(value).__name__ in ("NaTType", "NAType") else value
    numpy = sys.modules.get("numpy") if module == "numpy" else None
    if numpy is None or not isinstance(value, numpy.generic):
        return value
    if value.dtype.kind not in "mM":
        return value.item()
    if numpy.isnat(value):
        return None
    if numpy.datetime_data(value.dtype)[0] in _FINER_THAN_MICROSECONDS:
        rounded = value.astype(f"{value.dtype.kind}8[us]")
        item = rounded.item() if rounded == value else None
    else:
        item = value.item()
    return item if isinstance(item, _TIMES) else value


def has_nanoseconds(value: Any) -> bool:
    """Whether a time of pandas has nanoseconds, which Python's and Spark's have not."""
    if not type(value).__module__.startswith("pandas") or of_python(value) is None:
        return False
    return bool(getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0))
