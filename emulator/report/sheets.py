"""A table in blocks: the column of its nodes is made as it is written, for it may be far larger than all else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

MOST_NODES = 1 << 22
"""In a block."""
MOST_ROWS = 1 << 18
"""In a block, which is a row group in Parquet."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """All columns but that of the nodes, and how to make that one.

    `widths`: nodes of each row; `make(rows)`: the column of these rows, which stands at `place`.
    """

    table: pa.Table
    name: str
    place: int
    widths: NDArray[np.int64]
    make: Callable[[slice], pa.Array]

    def blocks(self) -> Iterator[pa.Table]:
        """One behind the other; at least one, and usually only one."""
        before = np.concatenate(([0], np.cumsum(self.widths)))
        begin = 0
        while begin == 0 or begin < len(self.table):
            end = int(np.searchsorted(before, before[begin] + MOST_NODES, "right")) - 1
            end = min(max(end, begin + 1), begin + MOST_ROWS, len(self.table))
            rows = slice(begin, end)
            part = self.table.slice(begin, end - begin)
            yield part.add_column(self.place, self.name, self.make(rows))
            if end == len(self.table):
                return
            begin = end

    def whole(self) -> pa.Table:
        return pa.concat_tables(self.blocks()).combine_chunks()
