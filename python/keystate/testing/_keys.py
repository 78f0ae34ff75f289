"""The keys of a harness, and which subtask has which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from keystate._types.codec import Misfit, struct_codec
from keystate._types.codec.evolution import type_name
from keystate._types.hash import KeyGroups
from keystate.errors import CheckpointError
from keystate.testing._rows import Rows
from keystate.testing._setup import Setup


class Keys:
    """The keys of rows in the form in which a dictionary finds them, with their key groups."""

    def __init__(self, setup: Setup) -> None:
        rows = setup.operator.rows
        self._columns = setup.key_columns
        self._codec = struct_codec(rows.key_type)
        self._key_groups = KeyGroups(rows.key_type, setup.max_parallelism)
        self._max_parallelism = setup.max_parallelism
        self._parallelism = setup.parallelism
        self._groups: dict[Any, int] = {}
        if not rows.keys:
            # Rows without keys are spread by a hash of all their columns.
            self._spreading = KeyGroups(rows.row_type, setup.parallelism)

    def of_rows(self, rows: Rows) -> list[tuple[int, Any]]:
        """For each row its subtask and its key."""
        found = [self._of_array(*each) for each in zip(rows.arrays, self._columns)]
        return found[0] if rows.order is None else [found[of][at] for of, at in rows.order]

    def _of_array(self, rows: pa.Array, key_columns: Sequence[int]) -> list[tuple[int, Any]]:
        if not key_columns:
            return [(subtask, ()) for subtask in self._spreading.of(rows)]
        columns = [rows.field(i) for i in key_columns]
        keys = pa.StructArray.from_arrays(columns, fields=list(self._codec.arrow))
        return [(self.subtask_of(key), key) for key in self.decode(keys)]

    def of_input(self, rows: pa.Array, index: int) -> list[Any]:
        """The key of each row of an input."""
        return [key for _, key in self._of_array(rows, self._columns[index])]

    def decode(self, array: pa.Array) -> list[Any]:
        """Keys as the stores have them; from now on their groups are known."""
        keys = self._codec.decode_keys(array)
        new = [key for key in dict.fromkeys(keys) if key not in self._groups]
        self._groups.update(zip(new, self._key_groups.of(self._codec.encode(new))))
        return keys

    def restored(self, array: pa.Array) -> list[Any]:
        """Keys of a snapshot.

        Raises:
            CheckpointError: they have other columns.
        """
        before, now = type_name(array.type), type_name(pa.struct(list(self._codec.arrow)))
        if before != now:
            raise CheckpointError(
                f"the state in the snapshot is keyed by {before}, but the operator by {now}: key "
                "it as before",
                code="KEYSTATE_KEY_CHANGED",
            )
        return self.decode(array)

    def encode(self, keys: Sequence[Any]) -> pa.Array:
        """The array of such keys."""
        return self._codec.encode(keys)

    def of_user(self, key: Any) -> Any:
        """The key that a user means: a bare value for one key column, a tuple for several."""
        if len(self._codec.names) == 1:
            key = (key,)
        try:
            return self.decode(self._codec.encode([key]))[0]
        except Misfit as e:
            raise TypeError(f"a key does not fit {self._codec.name}: {e}") from None

    def group(self, key: Any) -> int:
        """The key group of a key."""
        return self._groups[key]

    def subtask_of(self, key: Any) -> int:
        """The subtask that has a key."""
        return self.subtask_of_group(self._groups[key])

    def subtask_of_group(self, group: int) -> int:
        """The subtask that has a key group."""
        return group * self._parallelism // self._max_parallelism
