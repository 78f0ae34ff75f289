"""Row classes: what structs look like in Python.

A struct is a tuple whose fields can be read by name. It is a ``pyspark.sql.Row``, so that code
which expects one works, with a class for each list of field names, so that a field access costs
what ``namedtuple``'s does rather than a search through the names.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from pyspark.sql import Row
from pyspark.sql import types as T


@lru_cache(maxsize=1024)
def row_class(names: tuple[str, ...]) -> type[Row]:
    """The row class with these field names."""
    # namedtuple's getters read the tuple itself; any other way leads through Row.__getitem__.
    # The class stays alive meanwhile: the collector would empty its dictionary.
    getters = namedtuple("Getters", [f"f{i}" for i in range(len(names))])  # type: ignore[misc]
    fields = {name: vars(getters)[f"f{i}"] for i, name in enumerate(names) if name.isidentifier()}
    return type("Row", (Row,), {**fields, "__slots__": (), "__fields__": list(names)})


def row_maker(names: tuple[str, ...]) -> Callable[[tuple[Any, ...]], Row]:
    """Makes rows with these field names from tuples, without Row's own argument checks."""
    cls = row_class(names)
    return partial(tuple.__new__, cls)


def hashable(key: Any) -> Any:
    """A map's key as a dictionary can have it: with tuples for arrays."""
    if isinstance(key, Row):
        return T._create_row(key.__fields__, [hashable(part) for part in key])
    if isinstance(key, bytearray):
        return bytes(key)
    return tuple(map(hashable, key)) if isinstance(key, list) else key
