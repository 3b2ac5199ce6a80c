"""Programs of another release of Slurm: `live.batch: {slurm: {root: ...}}`."""

import subprocess
from pathlib import Path

import pytest

from emulator.live.fleet import Fleet
from emulator.live.slurm.programs import Programs, write_script
from emulator.live.slurm.system import SlurmSystem
from emulator.runs.preparation import prepare
from emulator.runs.scenario import ScenarioError, from_mapping

SCRIPTS = Path(__file__).parents[4] / "scripts"


def a_root(folder):
    for name in SlurmSystem().commands:
        place = folder / "usr" / ("sbin" if name.startswith("slurm") else "bin") / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch(0o755)
    return folder


def refusal(root, tmp_path, **live):
    batch = {"slurm": {"root": str(root)}}
    workload = {"generate": [{"daily_batch": {"days": 0.02, "jobs": 2}}]}
    wanted = from_mapping(
        {"name": "rooted", "nodes": 4, "workload": workload, "live": {"batch": batch} | live}
    )
    with pytest.raises(ScenarioError) as told:
        Fleet(wanted, prepare(wanted), tmp_path / "work")
    return str(told.value)


def test_a_folder_without_slurm_is_told_what_makes_one(tmp_path):
    assert refusal(tmp_path, tmp_path) == (
        f"live.batch: root: {tmp_path} has no {', '.join(SlurmSystem().commands)}; "
        "scripts/slurm-root makes such a root"
    )


def test_a_root_needs_root(tmp_path, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 65_000)  # of no name
    assert "only root can run programs of another root" in refusal(a_root(tmp_path), tmp_path)


def test_jobs_of_ours_need_a_python_that_a_root_leaves_there(tmp_path, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("sys.executable", "/usr/bin/env")
    said = refusal(a_root(tmp_path), tmp_path, jobs="emulator-job")
    assert "jobs and hooks that are programs of ours need /usr/bin/env, which no root has" in said


@pytest.mark.skipif(not Path("/bin").is_symlink(), reason="for machines whose /bin is in /usr")
def test_a_root_without_libfaketime_is_told_what_makes_one(tmp_path, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("socket.gethostbyname", lambda _name: "127.0.1.1")
    said = refusal(a_root(tmp_path), tmp_path)
    assert said == (
        f"live.batch: root: {tmp_path} has no libfaketimeMT.so.1; scripts/slurm-root makes such a root"
    )


@pytest.mark.needs("root", "mounts")
def test_a_program_sees_the_roots_usr_and_else_this_machine(tmp_path):
    """The shell, its libraries and `env` are a copy; what the program writes beside it is here."""
    root = tmp_path / "a root"
    (root / "usr" / "local").mkdir(parents=True)
    libraries = subprocess.run(["ldd", "/usr/bin/env"], capture_output=True, text=True, check=True).stdout
    files = ["/usr/bin/env", "/usr/bin/sh", "/usr/bin/dash"]
    files += [word for word in libraries.split() if word.startswith("/")]
    for name in files:
        place = root / "usr" / name.removeprefix("/").removeprefix("usr/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(Path(name).read_bytes())
        place.chmod(0o755)
    write_script(root / "usr" / "bin" / "slurmd", f'#!/bin/sh\necho "$WHO $1 $0" > {tmp_path}/told\n')
    script = tmp_path / "slurmd"
    write_script(script, Programs(root).bound("slurmd", {"WHO": "it is"}))

    subprocess.run([script, "two words"], check=True)

    assert (tmp_path / "told").read_text() == "it is two words /usr/bin/slurmd\n"
    assert not Path("/usr/bin/slurmd").exists() or Path("/usr/bin/slurmd").read_bytes()[:2] != b"#!"
    assert list((root / "usr" / "local").iterdir()) == []


@pytest.mark.parametrize("arguments", [[], ["23.02"], ["26.05", "more"]])
def test_a_release_that_is_not_known_gets_the_usage(arguments):
    said = subprocess.run([SCRIPTS / "slurm-root", *arguments], capture_output=True, text=True, check=False)
    assert (said.returncode, said.stdout) == (2, "")
    assert "scripts/slurm-root RELEASE" in said.stderr
    assert "22.05, 24.11 or 26.05" in said.stderr
