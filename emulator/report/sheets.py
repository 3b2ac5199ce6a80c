"""A table in blocks: its columns are made as they are written, for together they may be far larger than the record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
    """How many rows, and how to make the columns of some of them: all but that of the nodes, and that one.

    `widths`: nodes of each row; `make(rows)`: the column of these rows, which stands at `place`.
    """

    rows: int
    columns: Callable[[slice], pa.Table]
    name: str
    place: int
    widths: NDArray[np.integer[Any]]
    make: Callable[[slice], pa.Array]

    def blocks(self) -> Iterator[pa.Table]:
        """One behind the other; at least one, and usually only one."""
        before = np.concatenate(([0], np.cumsum(self.widths, dtype=np.int64)))
        begin = 0
        while begin == 0 or begin < self.rows:
            end = int(np.searchsorted(before, before[begin] + MOST_NODES, "right")) - 1
            end = min(max(end, begin + 1), begin + MOST_ROWS, self.rows)
            rows = slice(begin, end)
            yield self.columns(rows).add_column(self.place, self.name, self.make(rows))
            if end == self.rows:
                return
            begin = end

    def whole(self) -> pa.Table:
        return pa.concat_tables(self.blocks()).combine_chunks()
