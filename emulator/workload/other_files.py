"""Files that people have at hand and that are no job log: what each is, and what to export in its place.

Looked at only when no format can read a file. Each format knows the near misses of its own program (its `hint`); here
are those of programs that no format is for, and files that are text in no form at all.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from emulator.workload.files import open_trace

if TYPE_CHECKING:
    from pathlib import Path

_BEGINNING = 1 << 16
_OWN = "there is no reader for it; docs/traces.md, Your own, says how to add one (--plugin)"
_SLURM = (
    "take the accounting, with its header: sacct -a -X -D --parsable2 --noconvert (docs/traces.md, Slurm)"
)
_PBS = "take the accounting of PBS or Torque: the folder server_priv/accounting"
_BYTES = (
    (b"PK\x03\x04", "a ZIP archive or a spreadsheet: unpack it, or save the sheet as CSV"),
    (b"BZh", "compressed with bzip2: unpack it (plain, gzip and xz files are read)"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd: unpack it (plain, gzip and xz files are read)"),
    (b"PAR1", "a Parquet table: write the log that it was made of, or read it with a format of your own"),
    (b"SQLite format 3\x00", "a SQLite database: export the accounting as text"),
    (b"\xff\xfe", "text in UTF-16, as PowerShell writes it: write it again as UTF-8"),
    (b"\xfe\xff", "text in UTF-16: write it again as UTF-8"),
)
_TEXTS = tuple(
    (re.compile(pattern, re.MULTILINE), said)
    for pattern, said in (
        (r"\AJobId=\S+ UserId=", f"text of Slurm's plug-in jobcomp/filetxt: {_SLURM}"),
        (r"\AJobId=\S+ (ArrayJobId=.* )?JobName=", f"scontrol shows jobs of the last minutes: {_SLURM}"),
        (
            r"\A\d\d/\d\d/\d{4} \d\d:\d\d:\d\d(\.\d+)?;[0-9a-fA-F]{4};",
            f"a log of the PBS server (server_logs), which has no sizes and limits: {_PBS}",
        ),
        (r"\AJob Id: \S+$", f"qstat shows jobs that are not over for long: {_PBS}"),
        (r'\A\{\s*"timestamp":\d+,\s*"pbs_version"', f"qstat shows jobs that are not over for long: {_PBS}"),
        (r"\A={40,}\nqname +\S", "qacct's report: take the file that it reads, $SGE_ROOT/default/common/accounting"),
        (
            r"^\d\d:\d\d:\d\d \d{9,}(:\d+)? +\S+ +\S+ +JOB\w+ |\AVERSION \d{3}\b",
            f"events or a trace of Moab or Maui: {_PBS} (or Slurm's sacct) below it",
        ),
        (
            r"\A(completed|active) jobs-{3,}",
            f"Moab's showq shows jobs that are not over for long: {_PBS} (or Slurm's sacct) below it",
        ),
        (
            r"\A(#.*\n)*# *(1:)?JobID\b.*\bNProcs\b|\A# Version: .*\n#(.*\n#)* *\d+:JobID",
            ("the Grid Workload Format; its first 11 columns are those of SWF: "
            "grep -v '^#' IN | cut -f1-11 | sed 's/$/ -1 -1 -1 -1 -1 -1 -1/' > out.swf"),
        ),
        (
            r'\A"?JOB_NAME"?,"?COBALT_JOBID"?,|\A"?JOB_NAME"?,.*"?QUEUED_TIMESTAMP"?',
            f"a job composite of ALCF (Cobalt): {_OWN}",
        ),
        (r'"t_submit"\s*:|"t_depend"\s*:', f"jobs of Flux (flux jobs --json): {_OWN}"),
        (r"\A *JOBID +(QUEUE +)?USER +NAME +ST +NTASKS +NNODES", f"the table of flux jobs: {_OWN}"),
        (
            r'"event_type"\s*:\s*"compute\.instance\.',
            ("events of Ceilometer (Panko): take the servers themselves, openstack usage show -f json, or the table"
            " nova.instances as CSV (docs/traces.md, Clouds)"),
        ),
        (
            r'\A"?ID"?,"?Name"?,"?Status"?,',
            ('if openstack server list wrote it: write it again with -f json and --long -c ID -c "Created At", or'
            " better take openstack usage show -f json, which knows when servers ended"),
        ),
        (r"\A\s*<(!DOCTYPE html|html)\b", "a web page: fetch the file itself"),
        (r"\Aversion https://git-lfs", "a pointer of Git LFS: fetch the file itself (git lfs pull)"),
    )
)  # fmt: skip


def hint(path: Path) -> str | None:
    """What a file is that no format can read, and what to export in its place; None if it is not known."""
    with open_trace(path) as stream:
        begin = stream.read(_BEGINNING)
    for magic, said in _BYTES:
        if begin.startswith(magic):
            return said
    text = begin.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").replace("\r\n", "\n").lstrip()
    return next((said for pattern, said in _TEXTS if pattern.search(text)), None)
