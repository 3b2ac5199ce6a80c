"""Which modules the compiled loops depend on: a change there, and only there, compiles them anew."""

import os
from pathlib import Path

import pytest

from emulator.kernel import compiled
from emulator.kernel.compiled import kernel_sources, version_of

COMPILED = "from emulator.kernel.compiled import compiled\n"


def package_of(tmp_path: Path, **texts: str) -> Path:
    package = tmp_path / "emulator"
    for name, text in texts.items():
        path = package.joinpath(*name.split("__")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return package


def test_a_kernel_depends_on_what_it_imports_and_on_nothing_else(tmp_path):
    package = package_of(
        tmp_path,
        kernel__compiled="",
        kernel__kernel="from emulator.kernel.compiled import compiled\nfrom emulator.kernel.tables import A\n",
        kernel__tables="from emulator.bounds import B\nif TYPE_CHECKING:\n    from emulator.kernel.typing import C\n",
        kernel__typing="",
        kernel__plain="from emulator.kernel.kernel import run\n",
        bounds="",
    )
    found = [str(path.relative_to(package)) for path in kernel_sources(package)]
    assert found == ["bounds.py", "kernel/compiled.py", "kernel/kernel.py", "kernel/tables.py"]


def test_machine_code_depends_on_how_it_is_made():
    package = Path(__file__).parents[3] / "emulator"
    found = {str(path.relative_to(package)) for path in kernel_sources(package)}
    assert {f"kernel/{name}.py" for name in ("compiled_parts", "kernel_cache")} <= found


def test_the_loops_of_this_package_do_not_depend_on_the_plain_code_that_calls_them():
    package = Path(__file__).parents[3] / "emulator"
    found = {str(path.relative_to(package)) for path in kernel_sources(package)}
    assert {"kernel/tables.py", "kernel/passes.py", "mechanisms/malleable/planning.py"} <= found
    assert not {"simulation/loop.py", "cluster/cluster.py", "mechanisms/malleable/mechanism.py"} & found


def test_the_version_of_the_kernels_is_read_anew_only_when_a_module_is_another_one(tmp_path, monkeypatch):
    package = package_of(
        tmp_path,
        kernel__compiled="",
        kernel__kernel=COMPILED,
        other="",
    )
    known = tmp_path / "cache" / "version"
    first = version_of(package, known)
    monkeypatch.setattr(compiled, "kernel_sources", lambda _: pytest.fail("the sources were read"))
    assert version_of(package, known) == first
    monkeypatch.undo()

    (package / "kernel" / "kernel.py").write_text("from emulator.kernel.compiled import inlined\n")
    second = version_of(package, known)
    assert second != first
    (package / "other.py").write_text("A = 1\n")  # read anew, and the same
    assert version_of(package, known) == second
    (package / "kernel" / "added.py").write_text(COMPILED)
    assert version_of(package, known) not in {first, second}


def test_a_module_of_the_same_size_and_time_is_another_one_all_the_same(tmp_path):
    """As in an image of a container, where all files have one time."""
    package = package_of(tmp_path, kernel__compiled="", kernel__kernel=COMPILED + "A = 1\n")
    kernel, known = package / "kernel" / "kernel.py", tmp_path / "version"
    os.utime(kernel, ns=(0, 0))
    touched, first = kernel.stat().st_ctime_ns, version_of(package, known)
    kernel.write_text(COMPILED + "A = 2\n")
    os.utime(kernel, ns=(0, 0))
    while kernel.stat().st_ctime_ns == touched:  # the system's time goes by steps of milliseconds
        os.utime(kernel, ns=(0, 0))
    assert version_of(package, known) != first


@pytest.mark.parametrize(
    "text", [b"", b"one two three\n", b"\xff\xfe"], ids=["empty", "three words", "no text"]
)
def test_a_damaged_note_of_the_version_is_written_anew(tmp_path, text):
    package = package_of(tmp_path, kernel__compiled="", kernel__kernel=COMPILED)
    known = tmp_path / "version"
    version = version_of(package, known)
    good = known.read_bytes()
    known.write_bytes(text)
    assert version_of(package, known) == version
    assert known.read_bytes() == good


def test_a_cache_that_cannot_be_written_costs_a_look_at_the_sources_and_no_more(tmp_path):
    package = package_of(tmp_path, kernel__compiled="", kernel__kernel=COMPILED)
    (tmp_path / "file").write_text("")
    assert version_of(package, tmp_path / "file" / "version") == version_of(package, tmp_path / "version")
