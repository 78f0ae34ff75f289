"""The rows of an input, as the function is given them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import types as T

from keystate._types.codec import Shape, struct_codec
from keystate._worker.messages.columns import Columns


class InputDecoder:
    """Decodes rows; those of a class with code of its own are made by it, each at its turn.

    So an error of this code is the row's: the context has the row meanwhile.

    Args:
        row_type: of the rows.
        shape: of which class they are; ``None`` for Rows.
        context: of the current row.
    """

    def __init__(self, row_type: T.StructType, shape: Shape | None, context: Any) -> None:
        self.codec = struct_codec(row_type, shape or Shape())
        self._context = context
        self._sent = struct_codec(row_type) if self.codec.runs_code else self.codec

    def decode(self, message: Columns, name: str) -> Iterable[Any]:
        """A message's rows; an iterator over them continues after a row that fails."""
        rows = self.as_sent(message, name)
        return map(self._made, rows) if self.codec.runs_code else rows

    def as_sent(self, message: Columns, name: str) -> list[Any]:
        """A message's rows, before those that the user's code makes are made."""
        return message.values(name, self._sent)

    def made(self, row: Any) -> Any:
        """The object that the function gets for a row from the JVM."""
        return self.codec.made(row) if self.codec.runs_code else row

    def _made(self, row: Any) -> Any:
        try:
            return self.codec.made(row)
        except Exception:
            self._context.row = row
            raise
