"""Arrow columns made of NumPy arrays, by their memory: nothing is looked at one by one.

`pyarrow.array` would do the same for numbers, but loads pandas where that is installed, and `pyarrow.compute` is half
of what loading pyarrow takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from emulator.kernel.lists import WIDEST, gather, interval_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Known = NDArray[np.bool_] | None

_CHUNK = 1 << 22
"""Bytes of text that are made at once, at least."""


def numbers(values: NDArray[Any], known: Known = None) -> pa.Array:
    """The column of these numbers; null where one is not known."""
    values = np.ascontiguousarray(values)
    buffers = [_validity(known), pa.py_buffer(values)]
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), buffers)


def or_null(values: NDArray[Any]) -> pa.Array:
    """Negative numbers stand for "unknown" or "none" inside, null in files."""
    return numbers(values, values >= 0)


def named(codes: NDArray[Any], names: Sequence[str]) -> pa.DictionaryArray:
    """A column of few different names, each as a number and its name once."""
    return pa.DictionaryArray.from_arrays(numbers(codes.astype(np.int8)), texts(names))


def texts(values: Sequence[str]) -> pa.Array:
    return chosen(np.arange(len(values)), values)


def chosen(codes: NDArray[Any], names: Sequence[str]) -> pa.Array:
    """The column of texts `names[code]`; null where the code is negative."""
    encoded = [name.encode() for name in names]
    length = np.array([len(name) for name in encoded], np.int64)
    begin = np.cumsum(length) - length
    pool = np.frombuffer(b"".join(encoded) or b" ", np.uint8)
    known = codes >= 0
    at = np.where(known, codes, 0)
    lengths = np.where(known, length[at], 0) if len(names) else np.zeros(len(codes), np.int64)
    begins = begin[at] if len(names) else lengths
    data = np.empty(int(lengths.sum()), np.uint8)
    gather(pool, begins, lengths, data)
    return _strings(known, lengths, pa.py_buffer(data))


def lists(pool: NDArray[np.int32], begin: Ints, length: Ints) -> pa.ListArray:
    """The column of the lists `pool[begin[k]:begin[k] + length[k]]`; null where the length is negative."""
    known = length >= 0
    lengths = np.where(known, length, 0)
    values = np.empty(int(lengths.sum()), np.int32)
    gather(pool, begin, lengths, values)
    buffers = [_validity(known), pa.py_buffer(_offsets(lengths))]
    return pa.Array.from_buffers(pa.list_(pa.int32()), len(begin), buffers, children=[numbers(values)])


def intervals(first: Ints, node: NDArray[np.int32], rows: Ints) -> pa.Array:
    """The nodes of each of these rows as text, consecutive ones joined: `0-3 7`. Null where the row is negative."""
    widest = int(np.diff(first).max(initial=0))
    room = np.empty(max(_CHUNK, widest * WIDEST), np.uint8)
    ends, spare = np.zeros(len(rows), np.int64), np.empty(widest, np.int32)
    lengths, parts, done = np.zeros(len(rows), np.int64), [], 0
    while done < len(rows):
        behind = interval_text(first, node, rows, done, room, ends, spare)
        lengths[done:behind] = np.diff(ends[done:behind], prepend=0)
        parts.append(room[: ends[behind - 1]].tobytes())
        done = behind
    return _strings(rows >= 0, lengths, pa.py_buffer(b"".join(parts)))


def _strings(known: NDArray[np.bool_], lengths: Ints, data: pa.Buffer) -> pa.Array:
    return pa.Array.from_buffers(
        pa.string(), len(lengths), [_validity(known), pa.py_buffer(_offsets(lengths)), data]
    )


def _offsets(lengths: Ints) -> NDArray[np.int32]:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if offsets[-1] > np.iinfo(np.int32).max:
        raise ValueError("more than 2 GiB in one column; run a part of the log (the transform `window`)")
    return offsets.astype(np.int32)


def _validity(known: Known) -> pa.Buffer | None:
    return None if known is None or known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
