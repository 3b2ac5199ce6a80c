"""An option that the case at hand does not use is refused with status 2, and nothing is done."""

from __future__ import annotations

import pytest

from command_line import emulate


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("fleet", "up", "--detach", "--keep"), "--keep: with --detach the containers stay"),
        (("fleet", "fault", "kill", "n001", "--rate-kbit", "8"), "--rate-kbit: of slow, and this is kill"),
        (("fleet", "fault", "unslow", "n001", "--delay-ms", "8"), "--delay-ms: of slow, and this is unslow"),
        (
            ("calibrate", "slurm", ".", "--set", "seed=2", "--out", "out", "--repeats", "2"),
            "--set, --out, --repeats: nothing is run, since each DIR has its results; leave them out",
        ),
        (
            ("calibrate", "slurm", "a.yaml", "b.yaml", "--out", "out"),
            "--out: 2 scenarios would write into one folder",
        ),
        (
            ("sweep", "no.yaml", "--clock", "live", "--jobs", "2"),
            "--jobs: live runs are done here, one after the other; leave it out",
        ),
        (("compare", "a", "b", "--average", "median"), "--average: it is that of a heat map"),
        (
            ("compare", "a", "b", "--average", "median", "--jobs", "c.csv"),
            "--average: it is that of a heat map",
        ),
        (
            ("reproduce", "hybrid", "--dask", "tcp://127.0.0.1:9", "--jobs", "2"),
            "--jobs: the workers of the Dask cluster say how many",
        ),
    ],
)
def test_it_is_named(tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    done = emulate(*words)
    assert (done.exit_code, said in done.stderr) == (2, True), done.output
    assert not list(tmp_path.iterdir())
