"""A fleet's volume that fills up."""

import errno
import os
from types import SimpleNamespace

import pytest

from emulator.live import failure
from emulator.live.failure import DiskGuard

_MIB = 1 << 20


@pytest.fixture
def volume(monkeypatch):
    """A file system of blocks of 1 MiB, of which `free` can be changed."""
    found = SimpleNamespace(f_frsize=_MIB, f_blocks=1000, f_bavail=500)
    monkeypatch.setattr(failure.os, "statvfs", lambda _: found)
    return found


@pytest.mark.parametrize(("blocks", "enough"), [(100_000, 16), (32, 2)])
def test_a_part_of_the_volume_is_kept_free_and_its_lack_is_said(volume, tmp_path, blocks, enough):
    volume.f_blocks, volume.f_bavail = blocks, enough
    assert DiskGuard(tmp_path).shortage() == ""
    volume.f_bavail = enough - 1
    assert (
        f"the volume of {tmp_path} is full: {enough - 1}.0 MiB of {blocks} MiB are free; make room"
        in DiskGuard(tmp_path).shortage()
    )


def test_the_ballast_is_there_until_it_is_given_up(volume, tmp_path):
    held = DiskGuard(tmp_path)
    held.reserve()
    (ballast,) = tmp_path.iterdir()
    assert ballast.stat().st_blocks * 512 >= _MIB
    held.release()
    held.release()
    assert list(tmp_path.iterdir()) == []


def test_a_full_file_system_is_told_from_other_errors():
    assert failure.is_full(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert not failure.is_full(PermissionError(errno.EACCES, "no"))
