"""A made site whose answer is known: its two logs, in every form in which a site may have them.

A batch cluster of 12 nodes gets, each morning at 7, jobs of one node that keep all of them busy for 12 to 14 hours, and
at night a wide one. So from 7 until the evening no node is idle. At 10 three servers are wanted at once, for two hours,
and at 14 one more. On one machine of 16 nodes they find no idle node, so exactly three must be held in reserve: with
fewer, requests of each day are rejected.

    PYTHONPATH=. python tests/made_site.py traces/site

writes the two files that the tutorial uses.
"""

from __future__ import annotations

import csv
import io
import json
import lzma
import random
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from emulator.runs.preparation import Prepared
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import from_mapping
from emulator.workload.table import JobTable

BATCH_NODES, ONDEMAND_NODES, CORES, DAYS, RESERVE = 12, 4, 16, 28, 3
BEGIN_S = 1_767_484_800
"""Sunday, 2026-01-04, midnight UTC."""
DAY_S, HOUR_S, US = 86_400, 3_600, 1_000_000


@dataclass(frozen=True)
class Job:
    number: int
    submit_s: int
    start_s: int
    run_s: int
    limit_min: int
    nodes: int
    user: str

    @property
    def end_s(self) -> int:
        return self.start_s + self.run_s


@dataclass(frozen=True)
class Server:
    name: str
    begin_s: int
    end_s: int


def jobs() -> list[Job]:
    """Batch jobs with the starts that first come, first served with backfilling gave them on 12 nodes."""
    rng = random.Random(2026)
    asked = []
    for day in range(DAYS):
        work = BATCH_NODES * rng.uniform(12, 14) * HOUR_S
        while work > 0:
            run = rng.randrange(40, 180) * 60
            limit = (run // 60 * 2 // 30 + 1) * 30
            asked.append((day * DAY_S + 7 * HOUR_S + 2 * (len(asked) % 30), run, limit, 1, rng.randrange(12)))
            work -= run
        asked.append((day * DAY_S + 22 * HOUR_S, rng.randrange(60, 120) * 60, 240, 8, 12))
    asked.sort()
    submit, run, limit, nodes, _ = zip(*asked, strict=True)
    table = JobTable.build(
        submit_us=[each * US for each in submit],
        run_us=[each * US for each in run],
        estimate_us=[each * 60 * US for each in limit],
        nodes=list(nodes),
    )
    record = run_virtual(
        from_mapping({"nodes": BATCH_NODES, "workload": {"generate": ["daily_batch"]}}),
        Prepared(table, BATCH_NODES),
    )
    starts = [int(each) // US for each in record.start_us]
    return [
        Job(1000 + at, BEGIN_S + job[0], BEGIN_S + start, job[1], job[2], job[3], f"user{job[4]:02}")
        for at, (job, start) in enumerate(zip(asked, starts, strict=True))
    ]


def servers() -> list[Server]:
    """Those of each day: three at 10 for two hours, one at 14 for half an hour."""
    found = []
    for day in range(DAYS):
        ten, two = BEGIN_S + day * DAY_S + 10 * HOUR_S + 31, BEGIN_S + day * DAY_S + 14 * HOUR_S + 31
        found += [Server(f"d{day}-{number}", ten, ten + 2 * HOUR_S) for number in range(3)]
        found.append(Server(f"d{day}-late", two, two + HOUR_S // 2))
    return found


# Forms of the batch log.

COLUMNS = (
    "JobID",
    "Submit",
    "Start",
    "End",
    "Elapsed",
    "Timelimit",
    "NNodes",
    "NCPUS",
    "State",
    "User",
    "Partition",
)


def sacct_rows(found: list[Job]) -> list[list[str]]:
    return [
        [
            str(job.number), str(job.submit_s), str(job.start_s), str(job.end_s), span(job.run_s),
            span(60 * job.limit_min), str(job.nodes), str(job.nodes * CORES), "COMPLETED", job.user, "batch",
        ]
        for job in found
    ]  # fmt: skip


def sacct(found: list[Job], mark: str = "|") -> str:
    return "\n".join(mark.join(row) for row in [list(COLUMNS), *sacct_rows(found)]) + "\n"


def sacct_fixed(found: list[Job]) -> str:
    widths = (12, 19, 19, 19, 10, 10, 8, 10, 10, 9, 10)
    rows = [list(COLUMNS), ["-" * width for width in widths], *sacct_rows(found)]
    return "".join(
        " ".join(f"{text:>{width}}" for text, width in zip(row, widths, strict=True)) + " \n" for row in rows
    )


def sacct_json(found: list[Job]) -> str:
    listed = [
        {
            "job_id": job.number,
            "association": {},
            "allocation_nodes": job.nodes,
            "state": {"current": "COMPLETED", "reason": "None"},
            "time": {
                "submission": job.submit_s,
                "start": job.start_s,
                "end": job.end_s,
                "elapsed": job.run_s,
                "limit": {"set": True, "infinite": False, "number": job.limit_min},
            },
            "tres": {"allocated": [{"type": "cpu", "count": job.nodes * CORES}]},
            "user": job.user,
            "partition": "batch",
        }
        for job in found
    ]
    return json.dumps({"jobs": listed})


def pbs(found: list[Job]) -> str:
    return "".join(
        f"{datetime.fromtimestamp(job.end_s, UTC):%m/%d/%Y %H:%M:%S};E;{job.number}.head;"
        f"user={job.user} group=g queue=batch ctime={job.submit_s} qtime={job.submit_s} etime={job.submit_s}"
        f" start={job.start_s} end={job.end_s}"
        f" Resource_List.nodect={job.nodes} Resource_List.walltime={span(60 * job.limit_min, days=False)}"
        f" total_execution_slots={job.nodes * CORES} unique_node_count={job.nodes} Exit_status=0\n"
        for job in sorted(found, key=lambda job: job.end_s)
    )


def lsf(found: list[Job]) -> str:
    """Records as sites have them (the run limit before options3); hosts in the short form."""
    usage = "-1.000000 " * 2 + "-1 " * 17
    return "".join(
        f'"JOB_FINISH" "10.1" {job.end_s} {job.number} 1000 33554438 {job.nodes * CORES} {job.submit_s} 0 0'
        f' {job.start_s} "{job.user}" "batch" "" "" "" "login" "run" "" "" "" "{job.submit_s}.{job.number}" 0'
        f" {job.nodes} {_hosts(job)} 64 60.0 "
        f'"say ""hello""" "./a.out" {usage}"" "default" 0 {job.nodes * CORES} "" "" 0 2048 0 "" "" "" "" 0 "" 0 "" -1'
        f' "" "" "" "" -1 "" "" 5136 "" {job.start_s} "" "" 2 1032 "0" 1033 "0" 0 {60 * job.limit_min} 0 2048 ""\n'
        for job in sorted(found, key=lambda job: job.end_s)
    )


def _hosts(job: Job) -> str:
    return " ".join(f'"{CORES}*n{at:02}"' for at in range(job.nodes))


def oar(found: list[Job]) -> str:
    """As oarstat -f -J prints them, numbers as text as Perl does."""
    jobs = {
        str(job.number): {
            "Job_Id": str(job.number),
            "state": "Terminated",
            "submissionTime": str(job.submit_s),
            "startTime": str(job.start_s),
            "stopTime": str(job.end_s),
            "walltime": 60 * job.limit_min,
            "owner": job.user,
            "queue": "batch",
            "project": "default",
            "assigned_resources": list(range(job.nodes * CORES)),
            "assigned_network_address": [f"n{at:02}" for at in range(job.nodes)],
            "types": [],
            "events": [],
            "exit_code": "0",
        }
        for job in found
    }
    return json.dumps(jobs)


def _slots(found: list[Job]) -> list[dict[str, int | str]]:
    """A slot a node: HTCondor knows no other size."""
    return [
        {
            "ClusterId": job.number, "ProcId": 0, "QDate": job.submit_s, "JobCurrentStartDate": job.start_s,
            "CompletionDate": job.end_s, "JobStatus": 4, "JobUniverse": 5, "RequestCpus": job.nodes,
            "AllowedJobDuration": 60 * job.limit_min, "Owner": job.user, "ExitCode": 0,
        }
        for job in found
    ]  # fmt: skip


def condor(found: list[Job]) -> str:
    return json.dumps(_slots(found))


def condor_long(found: list[Job]) -> str:
    texts = (
        "".join(
            f'{name} = "{value}"\n' if isinstance(value, str) else f"{name} = {value}\n"
            for name, value in ad.items()
        )
        for ad in _slots(found)
    )
    return "\n".join(texts)


def swf(found: list[Job]) -> str:
    lines = [f"; UnixStartTime: {BEGIN_S}", f"; MaxNodes: {BATCH_NODES}", f"; MaxProcs: {BATCH_NODES}"]
    lines += [
        f"{job.number} {job.submit_s - BEGIN_S} {job.start_s - job.submit_s} {job.run_s} {job.nodes} -1 -1 {job.nodes}"
        f" {60 * job.limit_min} -1 1 {1 + int(job.user[4:])} -1 -1 1 -1 -1 -1"
        for job in found
    ]
    return "\n".join(lines) + "\n"


# Forms of the on-demand log.


def usage(found: list[Server]) -> str:
    listed = [
        {
            "instance_id": each.name,
            "started_at": iso(each.begin_s) + ".000000",
            "ended_at": iso(each.end_s) + ".000000",
            "vcpus": CORES,
            "flavor": "node",
            "state": "terminated",
        }
        for each in found
    ]
    return json.dumps({"Project": "lab", "Servers": listed}, indent=1)


def api_servers(found: list[Server]) -> str:
    listed = [
        {
            "id": each.name,
            "created": iso(each.begin_s) + "Z",
            "OS-SRV-USG:launched_at": iso(each.begin_s + 20) + ".000000",
            "OS-SRV-USG:terminated_at": iso(each.end_s) + ".000000",
            "flavor": {"vcpus": CORES},
        }
        for each in found
    ]
    return json.dumps({"servers": listed})


def instances(found: list[Server]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["uuid", "created_at", "launched_at", "terminated_at", "deleted_at", "vcpus", "vm_state"])
    for each in found:
        begin, end = iso(each.begin_s).replace("T", " "), iso(each.end_s).replace("T", " ")
        writer.writerow([each.name, begin, begin, end, end, CORES, "deleted"])
    return text.getvalue()


def events(found: list[Server]) -> str:
    return "\n".join(
        json.dumps(
            [
                {
                    "Request ID": "r2",
                    "Server ID": each.name,
                    "Action": "delete",
                    "Start Time": iso(each.end_s),
                },
                {
                    "Request ID": "r1",
                    "Server ID": each.name,
                    "Action": "create",
                    "Start Time": iso(each.begin_s),
                },
            ]
        )
        for each in found
    )


def prometheus(found: list[Server]) -> str:
    times = range(BEGIN_S + 31, BEGIN_S + DAYS * DAY_S + 1, 1800)
    values = [[time, str(sum(each.begin_s <= time < each.end_s for each in found))] for time in times]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": [{"values": values}]}})


BATCH = {
    "sacct": sacct,
    "sacct_csv": lambda found: sacct(found, ","),
    "sacct_fixed": sacct_fixed,
    "sacct_json": sacct_json,
    "pbs": pbs,
    "lsf": lsf,
    "oar": oar,
    "condor": condor,
    "condor_long": condor_long,
    "swf": swf,
}
ONDEMAND = {
    "usage": usage,
    "servers": api_servers,
    "instances": instances,
    "events": events,
    "prometheus": prometheus,
}


def iso(unix_s: int) -> str:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def span(seconds: int, *, days: bool = True) -> str:
    day, rest = divmod(seconds, DAY_S) if days else (0, seconds)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{day}-{clock}" if day else clock


def main(folder: Path) -> None:
    """The files of the tutorial; the same bytes each time."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("sacct.txt.xz", sacct(jobs())), ("usage.json.xz", usage(servers()))):
        (folder / name).write_bytes(lzma.compress(text.encode(), preset=9))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
