"""Large arrays that are gone leave no holes in the process that had them."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

KEPT_MIB = """
import os, sys
import numpy as np
from click.testing import CliRunner
from emulator.cli import main
from emulator.sweeps.malloc_tuning import return_large_arrays

def in_use():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

if sys.argv[1] == "returned":
    return_large_arrays()
elif sys.argv[1] == "a run":
    assert CliRunner().invoke(main, ["run", "log.swf", "--no-report"]).exit_code == 0
np.ones(24 << 17)  # 24 MiB, and gone
before = in_use()
arrays = [np.ones(8 << 17) for _ in range(20)]
kept = arrays[1::2]
del arrays
print(in_use() - before - 80)
"""


def kept_mib(how, folder=None):
    """What the process has beside ten arrays of 8 MiB, after ten others between them are gone."""
    command = [sys.executable, "-c", KEPT_MIB, how]
    return float(subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder).stdout)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="not the GNU C library")
def test_they_leave_no_holes():
    assert kept_mib("returned") < 10
    assert kept_mib("as it is") > 60  # else the C library has learned it, and nothing has to be told to it


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="not the GNU C library")
def test_nor_in_the_command_run(tmp_path):
    (tmp_path / "log.swf").write_text("; MaxNodes: 8\n1 0 -1 10 1 -1 -1 1 100 -1 1 1 1 1 1 1 -1 -1\n")
    assert kept_mib("a run", tmp_path) < 10
