"""Nobody is left behind: the sessions of our processes end when we are killed and can end them no more."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_SCRIPT = """
trap '' HUP INT TERM
sessions=' '
tags=
files=
while read -r action session; do
    case $action in
        watch) sessions="$sessions$session " ;;
        tag) tags="$tags $session" ;;
        remove) files="$files $session" ;;
        forget) case $sessions in  # else what is not there would double the list
            *" $session "*) sessions="${sessions%% "$session" *} ${sessions#* "$session" }" ;;
        esac ;;
    esac
done
for session in $sessions; do
    group=$(sed -n 's/^[0-9]*:freezer://p' "/proc/$session/cgroup")
    kill -KILL "-$session"
    case $group in
        */emulator-job-*) echo THAWED > "/sys/fs/cgroup/freezer$group/freezer.state" ;;
    esac
done
for tag in $tags; do
    # Who is found may have started another one, and who was being started is found a moment later.
    silent=0
    while [ $silent -lt 3 ]; do
        pids=$(grep -lszFx -e "$tag" /proc/[0-9]*/environ | tr -dc '0-9\n')
        if [ -n "$pids" ]; then silent=0; kill -KILL $pids; else silent=$((silent + 1)); sleep 0.05; fi
    done
done
rm -rf $files
"""


class OrphanReaper:
    """A small shell that reads from a pipe which only we hold open; at its end it kills what it was told to watch.

    A suspended job dies only once it is thawed, where the freezer is that of cgroup version 1.

    The kernel closes the pipe however we end, SIGKILL included. Sessions that ended by themselves must be
    forgotten, because their number may be given to somebody else.
    """

    def __init__(self) -> None:
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def watch(self, session: int) -> None:
        """Kill this session (its leader's process number) should we be killed."""
        self._say(f"watch {session}\n")

    def forget(self, session: int) -> None:
        """A session that is watched is over."""
        with suppress(BrokenPipeError):  # without a guard there is nothing to forget
            self._say(f"forget {session}\n")

    def watch_tag(self, tag: str) -> None:
        """Kill every process with this entry (NAME=VALUE, no spaces) in its environment, whatever its session.

        For programs that put their children out of our reach. The tag must be of this run alone.
        """
        self._say(f"tag {tag}\n")

    def remove(self, path: Path) -> None:
        """Delete this file or folder at the end. No spaces in its name."""
        self._say(f"remove {path}\n")

    def close(self) -> None:
        """Kill what is still watched, and end."""
        if self._shell.stdin is not None:
            self._shell.stdin.close()
        self._shell.wait()

    def _say(self, line: str) -> None:
        if self._shell.stdin is not None and not self._shell.stdin.closed:
            self._shell.stdin.write(line.encode())
            self._shell.stdin.flush()
