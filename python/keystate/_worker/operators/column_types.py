"""What Arrow does not check when it casts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa


def check_fields(given: pa.DataType, wanted: pa.DataType) -> None:
    """Raises TypeError if a struct has a field that the wanted type has no place for.

    Fields are found by their names. Arrow's cast leaves others out without a word: a misspelt one
    would be null. A field that is missing is null, as in a function of rows.
    """
    if not (pa.types.is_struct(given) and pa.types.is_struct(wanted)):
        for part, wanted_part in zip(_parts(given), _parts(wanted)):
            check_fields(part, wanted_part)
        return
    for field in given:
        places = wanted.get_all_field_indices(field.name)
        if not places:
            raise TypeError(f"{wanted} has no field '{field.name}'")
        check_fields(field.type, wanted.field(places[0]).type)


def check_dicts(values: Iterable[Any], wanted: pa.DataType) -> None:
    """Checks dictionaries, as in pandas' Series, that are to be values of a struct."""
    if pa.types.is_struct(wanted):
        names = {field.name for field in wanted}
        for value in values:
            if isinstance(value, dict) and not names.issuperset(value):
                raise TypeError(f"{wanted} has no field {min(value.keys() - names, key=str)!r}")


def _parts(kind: pa.DataType) -> list[pa.DataType]:
    """The types of a list's elements, or of a map's keys and values."""
    if pa.types.is_map(kind):
        return [kind.key_type, kind.item_type]
    return [kind.value_type] if pa.types.is_nested(kind) and hasattr(kind, "value_type") else []
