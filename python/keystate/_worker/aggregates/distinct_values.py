"""How many different values there are, about: from the least of their hashes.

A hash is a long. It is part of the state: the same value must have the same hash for ever, on any
machine. Integers, floats (as the bits of doubles), booleans, dates and times (as microseconds) are
mixed as 64 bits, by Stafford's "Mix13" as used by splitmix64 (Steele et al., "Fast splittable
pseudorandom number generators", 2014). Of others the bytes go through BLAKE2b (RFC 7693): of
strings, of binary values, and of decimals as reduced fractions, which no scale changes.

Of `n` different values that lie in `[0, 1)` by chance, let `u` be the `k`-th least. Then
`(k - 1) / u` estimates `n`, with a relative standard deviation of about `1 / sqrt(k - 2)` (Beyer et
al., "On synopses for distinct-value estimation under multiset operations", 2007). Of two sets of
least hashes the least of both are those of the union.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keystate._worker.aggregates.groups import Numbers, as_numbers, lists
from keystate._worker.aggregates.key_groups import bits_of_floats


def lists_of(values: pa.Array, kind: pa.ListType) -> pa.Array:
    """For each value a list of its hash; an empty one of a null."""
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    return lists(valid, _hashes(values.drop_null()), kind)


def lists_of_bytes(hashes: pa.Array, kind: pa.ListType) -> pa.Array:
    """Lists of the hashes that values have as bytes, eight each, the lowest first."""
    hashes = hashes.cast(pa.binary())
    _, offsets, data = hashes.buffers()
    bounds = np.frombuffer(offsets, np.int32)[hashes.offset :][: len(hashes) + 1]
    numbers = np.frombuffer(data or b"", np.uint8)[bounds[0] : bounds[-1]].view("<i8")
    return lists(np.diff(bounds) // 8, pa.array(numbers.astype(np.int64)), kind)


def estimates(most: pa.Array, least: pa.Array) -> pa.Array:
    """How many different values there were of which these are the least hashes."""
    lengths = np.asarray(pc.fill_null(pc.list_value_length(least), 0)).astype(np.int64)
    limits = pc.fill_null(most, 0).to_numpy(zero_copy_only=False)
    is_full = (lengths > 0) & (lengths == limits)
    last = least.flatten().to_numpy()[np.cumsum(lengths)[is_full] - 1]
    parts = (last.astype(np.float64) + 2.0**63 + 1) / 2.0**64
    counts = lengths.copy()
    counts[is_full] = np.rint((lengths[is_full] - 1) / parts)
    return pa.array(counts)


def _hashes(values: pa.Array) -> pa.Array:
    kind = values.type
    if pa.types.is_date32(kind):
        values = values.cast(pa.timestamp("us"))
    elif pa.types.is_floating(kind):
        values = bits_of_floats(values)
    numbers = as_numbers(values)
    if numbers is None:
        return _hashes_of_bytes(values)
    return pa.array(_mixed(numbers.astype(np.int64)))


def _mixed(numbers: Numbers) -> Numbers:
    bits = numbers.view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (bits ^ (bits >> np.uint64(31))).view(np.int64)


def _hashes_of_bytes(values: pa.Array) -> pa.Array:
    encoded = values.dictionary_encode()
    different = encoded.dictionary
    if pa.types.is_decimal(different.type):
        different = [b"%d/%d" % each.as_integer_ratio() for each in different.to_pylist()]
    else:
        different = different.cast(pa.binary()).to_pylist()
    hashed = b"".join(blake2b(each, digest_size=8).digest() for each in different)
    return pa.array(np.frombuffer(hashed, "<i8").astype(np.int64)).take(encoded.indices)
