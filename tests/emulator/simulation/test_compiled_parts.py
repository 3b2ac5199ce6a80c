"""How kernels are compiled and kept: what they call is a part of them, and loading one is not compiling."""

import json
import os
import pickle
import subprocess
import sys

import llvmlite.binding as llvm

KERNELS = """
import sys
import numpy as np
from emulator.kernel.compiled import compiled, inlined, inner

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

NUMBERS_AND_ARRAYS = """
import numpy as np
from emulator.kernel.compiled import compiled, inner

@inner
def shape_of(table, row, into):
    line = table[row]
    into[0] = table.size
    into[1] = table.shape[1]
    into[2] = len(line)
    into[3] = line.size
    into[4] = table[row, 1]
    into[5] = table.itemsize
    into[6], into[7] = table.strides

@compiled
def look(wide, narrow, turned, which, into):
    shape_of(wide, 1, into[0])
    shape_of(wide, which[0], into[1])
    shape_of(wide, into.shape[0] - 4, into[2])
    shape_of(narrow, 1, into[3])
    shape_of(turned, 1, into[4])

wide = np.arange(6).reshape(2, 3)
into = np.zeros((5, 8), np.int64)
look(wide, wide.astype(np.int32), wide.T, np.array([1], np.int32), into)
print(into.tolist(), len(shape_of.part.overloads))
"""


def run(folder, kernels=KERNELS):
    """What the kernels above find in a process of its own, with their machine code in `folder`."""
    file = folder / "kernels_of_a_test.py"
    file.write_text(kernels)
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


def test_a_function_is_kept_as_machine_code_and_of_its_intermediate_code_only_the_names_are(tmp_path):
    run(tmp_path)
    for path in (tmp_path / "kept").rglob("*.nbc"):
        _, _, (machine_code, stubs) = pickle.loads(path.read_bytes())[0]  # noqa: S301 - our own
        assert machine_code.startswith(b"\x7fELF")
        bodies = [
            [instruction.opcode for block in function.blocks for instruction in block.instructions]
            for function in llvm.parse_bitcode(stubs).functions
        ]
        assert bodies
        assert all(body == ["unreachable"] for body in bodies)


def test_a_part_is_compiled_once_for_whole_numbers_of_all_widths_and_sees_of_arrays_what_they_are(tmp_path):
    *found, many = run(tmp_path, NUMBERS_AND_ARRAYS)
    of_wide = [6, 3, 3, 3, 4, 8, 24, 8]
    of_narrow = [6, 3, 3, 3, 4, 4, 12, 4]
    of_turned = [6, 2, 2, 2, 4, 8, 8, 24]  # not without gaps: another kind of table
    assert json.loads("".join(found)) == [of_wide, of_wide, of_wide, of_narrow, of_turned]
    assert many == "3", "one for each kind of table"
