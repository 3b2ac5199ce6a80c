"""How kernels are compiled and kept: what they call is a part of them, and loading one is not compiling."""

import os
import subprocess
import sys

KERNELS = """
import sys
import numpy as np
from emulator.harness.compiled import compiled, inlined, inner

@inlined
def twice(values, k):
    return 2 * values[k]

@inner
def total(values, first):
    found = 0
    for k in range(first, len(values)):
        found += twice(values, k)
    return found

@compiled
def deepest(values):
    return total(values, 0)

@compiled
def both(values):
    values[0] = 5
    return total(values, 1) + deepest(values)

print(both(np.arange(4)), deepest(np.arange(4)), total(np.arange(4), 2), "numba.typed.typeddict" in sys.modules)
"""


def run(folder):
    """What the kernels above find in a process of its own, with their machine code in `folder`."""
    file = folder / "kernels_of_a_test.py"
    file.write_text(KERNELS)
    cache = {"EMULATOR_CACHE_DIR": str(folder / "kept")}
    done = subprocess.run(
        [sys.executable, str(file)], check=True, capture_output=True, text=True, env=os.environ | cache
    )
    return done.stdout.split()


def test_kernels_find_the_same_compiled_and_loaded_and_a_process_that_loads_them_is_not_ready_to_compile(
    tmp_path,
):
    assert run(tmp_path) == ["34", "12", "10", "True"]
    kept = sorted(path.name.split("-")[0] for path in (tmp_path / "kept").rglob("*.nbc"))
    assert kept == ["kernels_of_a_test.both", "kernels_of_a_test.deepest", "kernels_of_a_test.total"]
    assert run(tmp_path) == ["34", "12", "10", "False"]


def test_a_function_that_only_others_call_is_kept_in_no_file_of_its_own(tmp_path):
    run(tmp_path)
    assert not [path for path in (tmp_path / "kept").rglob("*") if "twice" in path.name]
