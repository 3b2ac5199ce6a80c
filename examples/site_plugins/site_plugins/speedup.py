"""A speed-up model: how much faster a job is on more nodes, for the mechanism `malleable`."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """n nodes are n ** `exponent` times as fast as one."""

    exponent: float = 0.9

    def of(self, widths, nominal):
        return widths.astype(np.float64) ** float(self.exponent)
