"""Large arrays that are gone leave no holes in the process that had them."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

KEPT_MIB = """
import os, sys
import numpy as np
from emulator.sweeps.memory import return_large_arrays

def in_use():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

if sys.argv[1] == "returned":
    return_large_arrays()
np.ones(24 << 17)  # 24 MiB, and gone
before = in_use()
arrays = [np.ones(8 << 17) for _ in range(20)]
kept = arrays[1::2]
del arrays
print(in_use() - before - 80)
"""


def kept_mib(how):
    """What the process has beside ten arrays of 8 MiB, after ten others between them are gone."""
    done = subprocess.run([sys.executable, "-c", KEPT_MIB, how], capture_output=True, text=True, check=True)
    return float(done.stdout)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="not the GNU C library")
def test_they_leave_no_holes():
    assert kept_mib("returned") < 10
    assert kept_mib("as it is") > 60  # else the C library has learned it, and nothing has to be told to it
