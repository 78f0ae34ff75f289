"""Conversion between Arrow arrays and Python values, a whole column at a time.

Python values are what PySpark's own rows hold: ``int``, ``float``, ``str``, ``bytes``, ``bool``,
``Decimal``, ``date``, naive local ``datetime`` for timestamps, ``list``, ``dict``, and
rows (:mod:`~keystate._types.codec.rows`) or dataclasses for structs. Encoding checks types: a value
that Spark would have to guess about, such as ``True`` for a long, raises :class:`Misfit`.
"""

from keystate._types.codec.base import Codec, Shape, offsets
from keystate._types.codec.beyond import BeyondPython
from keystate._types.codec.factory import codec, struct_codec
from keystate._types.codec.misfits import Misfit, TooLarge, shorten
from keystate._types.codec.not_given import TYPE as NOT_GIVEN
from keystate._types.codec.not_given import NotGiven
from keystate._types.codec.packed import NOT_PACKED, PackedRows
from keystate._types.codec.rows import hashable
from keystate._types.codec.structs import StructCodec

__all__ = [
    "NOT_GIVEN",
    "NOT_PACKED",
    "BeyondPython",
    "Codec",
    "Misfit",
    "NotGiven",
    "PackedRows",
    "Shape",
    "StructCodec",
    "TooLarge",
    "codec",
    "hashable",
    "offsets",
    "shorten",
    "struct_codec",
]
