"""What Arrow does not check when it casts."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


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


def cast(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """An array as one of another type, if all values fit.

    Raises:
        ValueError: a double is too large for a float: Arrow's cast would make it infinite.
    """
    made = values.cast(wanted)
    _check_floats(values, made)
    return made


def _check_floats(given: pa.Array, made: pa.Array) -> None:
    if pa.types.is_float32(made.type) and given.type != made.type:
        infinite = [pc.sum(pc.is_inf(each.cast(pa.float64()))).as_py() for each in (given, made)]
        if infinite[0] != infinite[1]:
            raise ValueError("a double is too large for a float")
    elif pa.types.is_struct(made.type) and pa.types.is_struct(given.type):
        for field in made.type:
            if given.type.get_field_index(field.name) >= 0:
                _check_floats(given.field(field.name), made.field(field.name))
    elif pa.types.is_map(made.type) and pa.types.is_map(given.type):
        _check_floats(*(pa.concat_arrays([each]).items for each in (given, made)))
    elif pa.types.is_list(made.type) and hasattr(given, "flatten"):
        _check_floats(given.flatten(), made.flatten())


def _parts(kind: pa.DataType) -> list[pa.DataType]:
    """The types of a list's elements, or of a map's keys and values."""
    if pa.types.is_map(kind):
        return [kind.key_type, kind.item_type]
    return [kind.value_type] if pa.types.is_nested(kind) and hasattr(kind, "value_type") else []
