"""One faster clock for processes that are started one by one, and for us."""

import os
import subprocess

import pytest

from balancer.clock import US
from emulator.live.slurm.programs import FakeTime, FakeTimeError, find_library

EPOCH_S = 1_767_225_600
SPEED = 1000


@pytest.fixture
def fake_time():
    time = FakeTime(find_library(), SPEED, EPOCH_S)
    yield time
    time.close()


def date(time):
    command = ["date", "+%s%6N"]
    done = subprocess.run(
        command, env={"PATH": os.environ["PATH"], **time.environ}, capture_output=True, check=True
    )
    return int(done.stdout)


@pytest.mark.needs("libfaketime")
def test_time_begins_at_the_epoch_with_the_first_process_and_is_the_same_for_all(fake_time):
    assert not fake_time.has_begun
    with pytest.raises(RuntimeError, match="no process lives in this time yet"):
        fake_time.now_us()
    first_us = date(fake_time)
    assert 0 <= first_us - EPOCH_S * US < 60 * SPEED * US
    assert fake_time.has_begun
    before_us = fake_time.now_us()
    second_us = date(fake_time)
    after_us = fake_time.now_us()
    assert first_us < before_us < second_us < after_us


@pytest.mark.needs("libfaketime")
def test_a_sleep_takes_its_time_by_the_faster_clock(fake_time):
    date(fake_time)
    before_us = fake_time.now_us()
    subprocess.run(["sleep", "500"], env={"PATH": os.environ["PATH"], **fake_time.environ}, check=True)
    # The machine may be slow; a sleep that took real seconds would have taken 500 of them.
    assert 499 * US <= fake_time.now_us() - before_us < 100 * SPEED * US


@pytest.mark.needs("libfaketime")
def test_nothing_is_left_of_it_afterwards():
    time = FakeTime(find_library(), SPEED, EPOCH_S)
    assert all(path.exists() for path in time.files)
    assert {path.stat().st_mode & 0o777 for path in time.files} == {0o600}
    time.close()
    assert not any(path.exists() for path in time.files)


def test_a_library_that_is_not_there_is_an_error_that_says_how_to_get_it(monkeypatch, tmp_path):
    with pytest.raises(FakeTimeError, match=r"libfaketime\.so is no file"):
        find_library(tmp_path / "libfaketime.so")
    monkeypatch.setattr("emulator.live.slurm.programs._FOLDERS", ("/nowhere",))
    with pytest.raises(FakeTimeError, match="apt-get install libfaketime"):
        find_library()
