"""Functions that others call by their address: compiled beside, the same wherever they come from."""

import os
import subprocess
import sys

import pytest

from emulator.harness.compiled import apart

KERNELS = """
from emulator.harness.compiled import apart, compiled, inner

@apart
def fill(values, first, step) -> int:
    for k in range(len(values)):
        values[k] = first + k * step
    return values[-1] // step

@apart
def double(values) -> None:
    for k in range(len(values)):
        values[k] *= 2

@inner
def fill_and_double(values, first, step):
    last = fill(values, first, step)
    double(values)
    return last

@compiled
def both(values, step):
    return fill_and_double(values, 3, step) + fill(values[1:], values[0], step)
"""
USE = """
import os
import sys
import numpy as np
{prepare}
from kernels_of_a_test import both, double, fill
values = np.zeros(4, np.int64)
print(both(values, 2), values.tolist())
try:
    both(values, 0)
except ZeroDivisionError as error:
    print(error)
for kernel in (fill, double):
    print(sum(kernel.dispatcher.stats.cache_misses.values()), end=" ")
print("numba.typed.typeddict" in sys.modules)
"""
FOUND = ["9 [6, 6, 8, 10]", "integer division by zero"]


def run(folder, kernels=KERNELS, prepare="", use=USE):
    """What is printed by a process that uses the kernels, whose machine code is in `folder`."""
    (folder / "kernels_of_a_test.py").write_text(kernels)
    file = folder / "use.py"
    file.write_text(use.format(prepare=prepare))
    cache = {"EMULATOR_CACHE_DIR": str(folder / "kept")}
    done = subprocess.run(
        [sys.executable, str(file)], check=True, capture_output=True, text=True, env=os.environ | cache
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def code_of(folder, name):
    return sorted((folder / "kept").rglob(f"kernels_of_a_test.{name}-*.nbc"))


def test_another_process_compiles_it_and_it_is_kept_and_loaded_as_a_program_of_its_own(tmp_path):
    with_a_second_processor = "os.sched_getaffinity = lambda _: {0, 1}"
    assert run(tmp_path, prepare=with_a_second_processor) == [*FOUND, "0 0 True"]
    programs = {name for name in ("both", "fill", "double", "fill_and_double") if code_of(tmp_path, name)}
    assert programs == {"both", "fill", "double"}
    assert run(tmp_path) == [*FOUND, "0 0 False"], "loaded, and not ready to compile"


def test_modules_of_the_same_names_in_the_folder_where_it_is_begun_are_not_taken_for_ours(
    tmp_path, monkeypatch
):
    folder = tmp_path / "elsewhere"
    (folder / "emulator").mkdir(parents=True)
    (folder / "emulator" / "__init__.py").write_text("raise RuntimeError('not ours')")
    monkeypatch.chdir(folder)
    assert run(tmp_path, prepare="os.sched_getaffinity = lambda _: {0, 1}") == [*FOUND, "0 0 True"]


@pytest.mark.parametrize(
    "prepare",
    ["os.sched_getaffinity = lambda _: {0}", "sys.executable = ''", "sys.executable = '/bin/false'"],
    ids=["no second processor", "nobody knows which Python this is", "the other process fails"],
)
def test_without_help_the_caller_compiles_it_itself(tmp_path, prepare):
    assert run(tmp_path, prepare=prepare) == [*FOUND, "1 1 True"]


def test_what_has_gone_from_the_cache_is_compiled_again_for_a_caller_that_is_there(tmp_path):
    run(tmp_path)
    (gone,) = code_of(tmp_path, "fill")
    gone.unlink()
    assert run(tmp_path) == [*FOUND, "1 0 True"]


def test_an_error_in_it_is_the_callers(tmp_path):
    """The process beside fails as well, and says nothing."""
    with pytest.raises(subprocess.CalledProcessError) as failed:
        run(tmp_path, KERNELS.replace("last = fill(values", "last = fill(None"))
    assert ">>> len(none)" in failed.value.stderr
    assert failed.value.stderr.count("Traceback (most recent call last)") == 1


def test_one_that_returns_what_it_does_not_say_is_not_called(tmp_path):
    with pytest.raises(subprocess.CalledProcessError) as failed:
        run(tmp_path, KERNELS.replace("return values[-1] // step", "return values[-1] / step"))
    assert "TypeError: kernels_of_a_test.fill returns float64, and says int64" in failed.value.stderr


def test_a_function_that_does_not_say_what_it_returns_cannot_be_apart():
    def look(values) -> float:
        return values[0]

    look.__annotations__["return"] = "float"
    with pytest.raises(TypeError, match="look: a function that is apart says that it returns int or None"):
        apart(look)
