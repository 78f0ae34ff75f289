"""A user's function on its way to the workers: pickled, with the broadcast variables in it."""

from __future__ import annotations

import io
import pickle
from dataclasses import dataclass
from typing import Any

import pyspark
from pyspark import cloudpickle

#: Not there in the package pyspark-client, which has no SparkContext.
_BROADCAST: Any = getattr(pyspark, "Broadcast", ())


@dataclass(frozen=True)
class SentFunction:
    """A user's function, pickled.

    The variables of ``sc.broadcast`` in it are kept beside it. So Spark, which pickles this object,
    sees them and sends their values to its workers; and the driver can make a copy of the function.

    Attributes:
        data: the pickle, in which a broadcast variable is its index.
        broadcasts: the variables.
    """

    data: bytes
    broadcasts: tuple[Any, ...] = ()

    @staticmethod
    def of(value: Any) -> SentFunction:
        """Pickles it."""
        file = io.BytesIO()
        pickler = _Pickler(file)
        pickler.dump(value)  # type: ignore[no-untyped-call]
        return SentFunction(file.getvalue(), tuple(pickler.broadcasts))

    def load(self) -> Any:
        """A new copy of what was pickled."""
        return _Unpickler(self.data, self.broadcasts).load()


def is_broadcast(value: Any) -> bool:
    """Whether it is a variable of ``sc.broadcast``."""
    return isinstance(value, _BROADCAST)


class _Pickler(cloudpickle.Pickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)  # type: ignore[no-untyped-call]
        self.broadcasts: list[Any] = []

    def persistent_id(self, obj: Any) -> int | None:
        if not is_broadcast(obj):
            return None
        for index, known in enumerate(self.broadcasts):
            if known is obj:
                return index
        self.broadcasts.append(obj)
        return len(self.broadcasts) - 1


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, broadcasts: tuple[Any, ...]) -> None:
        super().__init__(io.BytesIO(data))
        self._broadcasts = broadcasts

    def persistent_load(self, index: int) -> Any:
        return self._broadcasts[index]
