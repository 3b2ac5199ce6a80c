"""Which modules the compiled loops depend on: a change there, and only there, compiles them anew."""

from pathlib import Path

from emulator.harness.compiled import kernel_sources


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
        harness__compiled="",
        harness__kernel="from emulator.harness.compiled import compiled\nfrom emulator.harness.tables import A\n",
        harness__tables="from emulator.bounds import B\nif TYPE_CHECKING:\n    from emulator.harness.typing import C\n",
        harness__typing="",
        harness__plain="from emulator.harness.kernel import run\n",
        bounds="",
    )
    found = [str(path.relative_to(package)) for path in kernel_sources(package)]
    assert found == ["bounds.py", "harness/compiled.py", "harness/kernel.py", "harness/tables.py"]


def test_the_loops_of_this_package_do_not_depend_on_the_plain_code_that_calls_them():
    package = Path(__file__).parents[3] / "emulator"
    found = {str(path.relative_to(package)) for path in kernel_sources(package)}
    assert {"harness/tables.py", "harness/passes.py", "mechanisms/malleable/planning.py"} <= found
    assert not {"harness/loop.py", "harness/cluster.py", "mechanisms/malleable/mechanism.py"} & found
