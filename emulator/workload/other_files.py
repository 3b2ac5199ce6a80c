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
_GRID_ENGINE = "take Grid Engine's accounting, $SGE_ROOT/default/common/accounting"
_BYTES = (
    (b"PK\x03\x04", "a ZIP archive or a spreadsheet: unpack it, or save the sheet as CSV"),
    (b"BZh", "compressed with bzip2: unpack it (plain, gzip and xz files are read)"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd: unpack it (plain, gzip and xz files are read)"),
    *(
        (magic, "an archive or compressed: unpack it (plain, gzip and xz files are read)")
        for magic in (b"7z\xbc\xaf", b"Rar!", b"\x04\x22\x4d\x18", b"\x1f\x9d", b"LZIP")
    ),
    *(
        (magic, "data of a program, no text: write the log that it was made of")
        for magic in (b"\x80\x04\x95", b"\x80\x05\x95", b"ARROW1", b"\x89HDF", b"ORC", b"Obj\x01")
    ),
    (b"PAR1", "a Parquet table: write the log that it was made of, or read it with a format of your own"),
    (b"SQLite format 3\x00", "a SQLite database: export the accounting as text"),
    (
        b"\0\0\0\0",
        "its beginning is NUL bytes, as when it was emptied while its writer had it open: remove them (tr -d '\\000')",
    ),
    (b"\xff\xfe", "text in UTF-16, as PowerShell writes it: write it again as UTF-8"),
    (b"\xfe\xff", "text in UTF-16: write it again as UTF-8"),
)
_UTF_16 = ((1, b"\xff\xfe"), (0, b"\xfe\xff"))
"""Which bytes of a pair are 0 in English text, and the mark that may be missing in front of it."""
_FEW = 64
_TAR, _TAR_AT = b"ustar", 257
_TEXTS = tuple(
    (re.compile(pattern, re.MULTILINE), advice)
    for pattern, advice in (
        (
            r'\A(?![\[{])(?:[^\n<]*: .*\n){1,20}?[\[{](\s|"|\{)',
            "JSON below messages of its program: leave out what stands above it",
        ),
        (r"\AJobId=\S+ UserId=", f"text of Slurm's plug-in jobcomp/filetxt: {_SLURM}"),
        (r"\AJobId=\S+ (ArrayJobId=.* )?JobName=", f"scontrol shows jobs of the last minutes: {_SLURM}"),
        (
            r"\A\d\d/\d\d/\d{4} \d\d:\d\d:\d\d(\.\d+)?;[0-9a-fA-F]{4};",
            f"a log of the PBS server (server_logs), which has no sizes and limits: {_PBS}",
        ),
        (r"\AJob Id: \S+$", f"qstat shows jobs that are not over for long: {_PBS}"),
        (r'\A\{\s*"timestamp":\d+,\s*"pbs_version"', f"qstat shows jobs that are not over for long: {_PBS}"),
        (r"\AJob [iI][dD] +Name +User +Time Use", f"qstat shows jobs that are not over for long: {_PBS}"),
        (
            r'\A\{(?s:.)*"job_state"\s*:(?s:.)*"(submit_time|job_id)"\s*:|\AJOBID\|',
            f"squeue and scontrol show jobs of the last minutes: {_SLURM}",
        ),
        (r'"association"\s*:\s*\{(?s:.)*"job_id"\s*:|"job_id"\s*:(?s:.)*"association"\s*:\s*\{',
         'jobs of sacct --json without the document around them: keep it whole, {"jobs": [...]}'),
        (
            r"\A(?s:.)*^- account: (?s:.)*^  (allocation_nodes|association):",
            "sacct --yaml: write it again with --json",
        ),
        (r"\A(<\?xml.*>\s*)?<(job_info|detailed_job_info)", f"qstat shows jobs that have not ended; {_GRID_ENGINE}"),
        (r'\A\{(?s:.)*"jobs"\s*:\s*\[\s*\]', "a document without jobs: look at the command's dates (sacct -S, -E)"),
        (r"\A\s*(\[\s*\]|\{\s*\}|null|)\s*\Z", "there is nothing in it: look at the command's dates, or its errors"),
        (r'\A\[\s*\{(?=(?s:.)*"job_number"\s*:)(?s:.)*"submission_time"\s*:',
         "records of Grid Engine in one list: write one a line, as accounting.jsonl has them (jq -c '.[]')"),
        (r'(?i)"?local[ _]job[ _]id"?\s*[,:]', "jobs as XDMoD exports them: take the log that XDMoD was given"),
        (r'"jobid"\s*:(?s:.)*"@submit"\s*:', f"records of Slurm's plug-in jobcomp/elasticsearch: {_SLURM}"),
        (r"\A\[\d{4}-\d\d-\d\dT[\d:.]+\] ", f"a log of Slurm's daemons: {_SLURM}"),
        (r"\APARTITION +AVAIL +|\AJob ID: \d+\nCluster: ", f"sinfo and seff show what is now, or one job: {_SLURM}"),
        (
            r"\A(-+\n)?(\S*/?(Account|User)\S*|Cluster|Top \d+ Users|\S+ Sizes|Reservation) (Utili[sz]ation )?\d{4}-",
            f"sreport shows sums: {_SLURM}",
        ),
        (
            r"\ACluster\|NodeName\|TimeStart\|",
            f"sacctmgr show event says when nodes were down (--down-nodes of trace check and study); for jobs {_SLURM}",
        ),
        (r"\A(-- |/\*|INSERT INTO |CREATE TABLE )", "a dump of a database: export the table with its heading as CSV"),
        (r"\A\+-{2,}", "a table for people: write it again with -f json, or as CSV"),
        (r'"timestamp"\s*:(?s:.)*"granularity"\s*:', "measures of Gnocchi: write them again with -f csv"),
        (
            r"\ASummary of time in seconds spent in various states:",
            "bhist's report for people: take LSF's accounting file, LSB_SHAREDIR/CLUSTER/logdir/lsb.acct",
        ),
        (
            r'\A\{(?s:.)*"format"\s*:\s*"emulator|\Ajob_id,(?s:.)*,?starting_time,',
            "results of a run: `emulator gui FOLDER` opens them; a run takes the log that they were made of",
        ),
        (
            r'\A\{(?=(?s:.)*"workload"\s*:)(?s:.)*"(trace|generate|mechanism|scheduler|nodes)"\s*:',
            "if it is a scenario: JSON is YAML too; give the file a name that ends in .yaml",
        ),
        (r"\A={40,}\nqname +\S", f"qacct's report; {_GRID_ENGINE}"),
        (
            (r"^\d\d:\d\d:\d\d \d{9,}(:\d+)? +\S+ +\S+ +JOB\w+ |\AVERSION \d{3}\b"
             r"|\A\S+ +\d+ +\d+ +\S+ +\S+ +\d+ +(Completed|Removed|NotQueued|Cancelled) +\["),
            f"events or a trace of Moab or Maui: {_PBS} (or Slurm's sacct) below it",
        ),
        (
            r"\A(completed|active) jobs-{3,}",
            f"Moab's showq shows jobs that are not over for long: {_PBS} (or Slurm's sacct) below it",
        ),
        (
            (r"\A(#.*\n)*# *(1:)?JobID\b.*\bNProcs\b|\A# Version: .*\n#(.*\n#)* *\d+:JobID"
             r"|\A\d+(\s+-?[\d.]+){10}\s+[A-Za-z]\S*\s+[A-Za-z]\S*\s"),
            ("the Grid Workload Format; its first 11 columns are those of SWF: "
            "awk '!/^#/ {NF = 11; print $0, -1, -1, -1, -1, -1, -1, -1}' IN > out.swf"),
        ),
        (
            r"\A(\s*-?[\d.]+){15,17}[ \t]*$",
            "if it is the Standard Workload Format: it has 18 columns; put -1 for those that are missing",
        ),
        (
            r'\A"?JOB_NAME"?,"?COBALT_JOBID"?,|\A"?JOB_NAME"?,.*"?QUEUED_TIMESTAMP"?',
            f"a job composite of ALCF (Cobalt): {_OWN}",
        ),
        (r'"t_submit"\s*:|"t_depend"\s*:', f"jobs of Flux (flux jobs --json): {_OWN}"),
        (r"\A *JOBID +(QUEUE +)?USER +NAME +ST +NTASKS +NNODES", f"the table of flux jobs: {_OWN}"),
        (
            r'"event_type"\s*:\s*"(compute\.)?instance\.',
            ("events of Ceilometer (Panko): take the servers themselves, openstack usage show -f json, or the table"
            " nova.instances as CSV (docs/traces.md, Clouds)"),
        ),
        (
            r'(?i)\A[\[{](?=(?s:.)*"start.date"\s*:)(?s:.)*"end.date"\s*:|\A"?id"?,(?=.*start.date).*end.date',
            f"leases of Blazar: {_OWN}, or write a table with sacct's columns (Submit, Start, ElapsedRaw, NNodes, ...)",
        ),
        (
            r'\A"?ID"?,"?Name"?,"?Status"?,',
            ('if openstack server list wrote it: write it again with -f json and --long -c ID -c "Created At", or'
            " better take openstack usage show -f json, which knows when servers ended"),
        ),
        (
            r"\A[ \t]*-?\d+([ \t]+(-?[\d.,]+|-|(?i:nan|na|null|none))){17}[ \t]*$",
            "if it is the Standard Workload Format: fractions have points, and -1 stands for what is unknown",
        ),
        (r'\A\{"timestamp":[\d.]+,"name":"\w', f"events of a job of Flux: {_OWN}"),
        (r"\A(-?[\d.]+, *){17}-?[\d.]+ *$", "if it is the Standard Workload Format: put blanks for its commas"),
        (r"^(workload|mechanism):", "a scenario: `emulator run` runs it"),
        (r"^(base|grid|points):", "a sweep: `emulator sweep` runs it"),
        (r"\A# .*\n(?s:.)*^## ", "a text in Markdown"),
        (r"\A\s*<(!DOCTYPE html|html)\b", "a web page: fetch the file itself"),
        (r"\Aversion https://git-lfs", "a pointer of Git LFS: fetch the file itself (git lfs pull)"),
        (
            (r"(?i)\A(?![\[{])(?=.*submi)(?=.*(start|begin|wait))(?=.*(end|finish|stop|run|elapsed|duration))"
             r".*[,;|\t]"),
            ("a table of your own: call its columns as sacct does (JobIDRaw, Submit, Start, ElapsedRaw, NNodes, State;"
             " docs/traces.md, Slurm), or add a reader (Your own)"),
        ),
    )
)  # fmt: skip


def hints_of_folder(path: Path) -> list[str]:
    """What a folder is that no format can read, if it is known."""
    if (path / "summary.json").is_file():
        return [f"the results of a run: `emulator gui {path}` opens them"]
    return []


def hint_of_bytes(path: Path) -> str | None:
    """What a file is that no format can read, if its bytes tell; None if they do not."""
    begin = _begin(path)
    for zeros, mark in _UTF_16:
        others = begin[1 - zeros : _FEW : 2]
        if len(others) > 1 and 0 not in others and not begin[zeros:_FEW:2].strip(b"\0"):
            begin = mark + begin
    for magic, advice in _BYTES:
        if begin.startswith(magic):
            return advice
    return "a tar archive: unpack it" if begin[_TAR_AT:].startswith(_TAR) else None


def _begin(path: Path) -> bytes:
    with open_trace(path) as stream:
        return stream.read(_BEGINNING)


def hint_of_text(path: Path) -> str | None:
    """What a text is that no format can read, and what to export in its place; None if it is not known."""
    begin = _begin(path)
    text = begin.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").replace("\r\n", "\n").lstrip()
    return next((advice for pattern, advice in _TEXTS if pattern.search(text)), None)
