"""Elements of operator state in a checkpoint, as the function declares them now."""

from __future__ import annotations

import pyarrow as pa

from keystate._spec.specs import StateSpec
from keystate._types.codec import Codec
from keystate._types.codec.evolution import Unreadable, read_as, stored_element, type_name
from keystate.errors import StateTypeError


def element_as_declared(text: str, spec: StateSpec, declared: Codec) -> pa.Array:
    """An array with the element in a checkpoint's text.

    Args:
        text: the element.
        spec: the state's.
        declared: the codec of its elements.

    Raises:
        CheckpointError: it is damaged.
        StateTypeError: it is of a type that can't be read as the declared one.
    """
    column = stored_element(text, spec.name)
    if column.type == declared.arrow:
        return column
    try:
        return read_as(column, spec.type_with_defaults())
    except Unreadable as e:
        raise StateTypeError(
            f"state '{spec.name}' is {type_name(column.type)} in the checkpoint and "
            f"{declared.name} in the function: {e}. Declare it as before, or give the new state "
            "another name",
            code="KEYSTATE_STATE_CHANGED",
        ) from None
