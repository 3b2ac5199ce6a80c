"""The package of `examples/` is installed as its user would, into an environment of its own, and each kind is used."""

from __future__ import annotations

import os
import site
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from emulator.kernel.compiled import cache_folder
from emulator.plugins import KINDS

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "examples" / "site_plugins"


def done(*command, **environ):
    result = subprocess.run(
        [str(each) for each in command],
        env=os.environ | environ,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """An environment that sees the packages of this one, and has the example installed."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=False)
    (there,) = folder.glob("lib/python*/site-packages")
    seen = "; ".join(f"site.addsitedir({place!r})" for place in site.getsitepackages())
    (there / "seen.pth").write_text(f"import site; {seen}\n")
    interpreter = folder / "bin" / "python"
    flags = ("--quiet", "--no-build-isolation", "--no-deps", "--no-index", "--disable-pip-version-check")
    done(sys.executable, "-m", "pip", "--python", interpreter, "install", *flags, PACKAGE)
    return interpreter


def test_there_is_one_of_each_kind(python):
    ours = "[x for x in entry_points(group=g) if x.value.startswith('site_plugins.')]"
    missing = f"print([g for g in {sorted(KINDS)!r} if not {ours}])"
    shown = done(python, "-c", f"from importlib.metadata import entry_points; {missing}")
    assert shown == "[]\n"


@pytest.mark.slow
def test_each_kind_is_used_once_it_is_installed(python):
    here = Path(__file__).parent / "test_each_kind.py"
    not_of_a_package = "the_example_of_the_page"
    shown = done(
        python,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-k",
        f"not {not_of_a_package}",
        here,
        SITE_PLUGINS_INSTALLED="1",
        EMULATOR_CACHE_DIR=str(cache_folder().parent),  # the loops are compiled already
    )
    assert " passed, 1 deselected in " in shown  # and none skipped, none failed
