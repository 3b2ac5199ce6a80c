"""Random logs in every known form, a builder each: a text, and how many records it has."""

from __future__ import annotations

import json

from emulator.workload.grid_engine import FIELDS

LSF = (
    '"{kind}" "10.1" {end} {job} 2001 33816602 1 {submit} 0 0 {start} "ann" "normal" "" "" "" "login1" "/h" "" "" ""'
    ' "1.5" 0 1 "h1" 64 60.0 "" "run" {usage} "" "proj" 0 1 "" "" 0'
)
SACCT = "JobIDRaw|Submit|Start|End|ElapsedRaw|TimelimitRaw|NNodes|NCPUS|State|User|Group|Partition"
BLANK = dict.fromkeys(FIELDS, "0")


def lines(build, heading=""):
    """Records a line each, and how many there are in such a file."""

    def make(rng, count):
        made = [build(rng, at) for at in range(count)]
        for _ in range(rng.randrange(3)):
            at = rng.randrange(len(made))
            made[at] = rng.choice(
                (made[at][: max(2, rng.randrange(len(made[at])))], made[at] + "x9", made[at - 1], "??")
            )
        made = [line for line in made if line.strip()]
        return "\n".join([heading, *made] if heading else made) + "\n", len(made)

    return make


def listed(build, wrap=list):
    """The same in one JSON document."""

    def make(rng, count):
        made = [build(rng, at) for at in range(count)]
        for _ in range(rng.randrange(3)):
            at = rng.randrange(1, len(made))
            made[at] = rng.choice(
                (
                    made[at - 1],
                    7,
                    {name: made[at][name] for name in list(made[at])[1:]}
                    if isinstance(made[at], dict)
                    else 7,
                )
            )
        return json.dumps(wrap(made)), len(made)

    return make


def times(rng):
    submit = 1_700_000_000 + rng.randrange(1000)
    start = submit + rng.randrange(-5, 100)
    return submit, start, start + rng.randrange(-5, 500)


def swf(rng, at):
    return " ".join(map(str, (at, at, *(rng.randrange(-1, 9) for _ in range(16)))))


def pbs(rng, at):
    submit, start, end = times(rng)
    job = rng.choice((f"{at}.srv", f"{at}[].srv", "3.srv"))
    hosts, limit = rng.choice(("n1/0", "n2/0*2", "n/x-")), rng.choice(("1:00", "x"))
    said = f"user=ann queue=q ctime={submit} start={start} end={end} Exit_status=0 exec_host={hosts}"
    return f"03/01/2026 10:00:00;{rng.choice('EEESQAD')};{job};{said} Resource_List.walltime={limit}"


def grid_engine(rng, at):
    submit, start, end = times(rng)
    said = BLANK | {
        "qname": "q", "owner": rng.choice(("ann", "a:b")), "job_number": str(at // 2), "submission_time": str(submit),
        "start_time": str(start), "end_time": str(end), "pe_taskid": rng.choice(("NONE", "1.n1")), "slots": "2",
        "category": "-l h_rt=60",
    }  # fmt: skip
    return ":".join(said.values())


def grid_engine_9(rng, at):
    names = (
        "job_number",
        "qname",
        "owner",
        "failed",
        "exit_status",
        "slots",
        "submission_time",
        "start_time",
        "end_time",
    )
    return json.dumps(dict(zip(names, (at, "q", "ann", 0, 0, 1, *times(rng)), strict=True)))


def lsf(rng, at):
    submit, start, end = times(rng)
    kind = rng.choice(("JOB_FINISH", "JOB_FINISH", "EVENT_ADRSV_FINISH"))
    return LSF.format(kind=kind, submit=submit, start=start, end=end, job=at // 2, usage=" ".join("0" * 19))


def sacct(rng, at):
    submit, start, end = times(rng)
    job = rng.choice((f"{at}", "5", f"{at}.batch", f"{at}+1"))
    state = rng.choice(("COMPLETED", "REQUEUED", "NODE_FAIL", "RESIZING", "PENDING", "CANCELLED by 5"))
    return (
        f"{job}|{submit}|{start}|{end}|{end - start}|{rng.choice(('60', 'x', ''))}|2|8|{state}|ann|phys|debug"
    )


def sacct_json(rng, at):
    submit, start, end = times(rng)
    return {
        "job_id": rng.choice((at, 5)), "association": {}, "allocation_nodes": 2,
        "state": {"current": [rng.choice(("COMPLETED", "REQUEUED", "PREEMPTED"))]},
        "time": {"submission": submit, "start": start, "elapsed": end - start},
    }  # fmt: skip


def oar(rng, at):
    submit, start, end = times(rng)
    return {
        "job_id": rng.choice((at, 5)), "submission_time": submit, "start_time": start, "stop_time": end,
        "state": "Terminated", "assigned_network_address": ["n1"], "types": rng.choice(([], ["inner=5"])),
    }  # fmt: skip


def condor(rng, at):
    submit, start, end = times(rng)
    return {
        "ClusterId": rng.choice((at, 5)), "ProcId": 0, "QDate": submit, "JobStartDate": start, "CompletionDate": end,
        "JobStatus": rng.choice((3, 4)), "JobUniverse": rng.choice((5, 7, 12)),
    }  # fmt: skip


def batsim(rng, at):
    return {
        "id": rng.choice((at, 5, "word")),
        "subtime": at,
        "res": rng.randrange(3),
        "profile": rng.choice("ab"),
    }


def elastisim(rng, at):
    return {"application_model": "m.json", "type": "rigid", "num_nodes": rng.randrange(3), "submit_time": at}


def server(rng, at):
    _, start, end = times(rng)
    return {
        "id": f"s{at}",
        "Created At": start,
        "terminated_at": end,
        "updated": rng.choice((start, "x", None)),
    }


def event(rng, at):
    action = rng.choice(("create", "delete", "reboot", "shelve", "unshelve"))
    return {"Request ID": f"r{at}", "Server ID": f"s{at % 3}", "Action": action, "Start Time": times(rng)[0]}


def usage(rng, at):
    _, start, end = times(rng)
    return {"started_at": start, "ended_at": end, "vcpus": rng.randrange(3), "instance_id": f"i{at}"}


SERVERS = "uuid,created_at,terminated_at,vcpus,vm_state"


def server_row(rng, at):
    _, start, end = times(rng)
    return f's{at},{start},{rng.choice((end, "NULL"))},{rng.randrange(3)},"{rng.choice(("active", "error"))}"'


MAKERS = {
    "swf": lines(swf, "; Version: 2.2"),
    "pbs": lines(pbs),
    "grid_engine": lines(grid_engine),
    "grid_engine 9": lines(grid_engine_9),
    "lsf": lines(lsf),
    "sacct": lines(sacct, SACCT),
    "sacct_json": listed(sacct_json, lambda jobs: {"jobs": jobs}),
    "oar": listed(oar),
    "condor": listed(condor),
    "batsim": listed(
        batsim,
        lambda jobs: {"nb_res": 4, "jobs": jobs, "profiles": {"a": {"type": "delay", "delay": 5}, "b": {}}},
    ),
    "elastisim": listed(elastisim, lambda jobs: {"jobs": jobs}),
    "nova_servers": listed(server),
    "nova_servers table": lines(server_row, SERVERS),
    "sacct table": lines(
        lambda rng, at: ",".join(f'"{each}"' for each in sacct(rng, at).split("|")), SACCT.replace("|", ",")
    ),
    "nova_events": listed(event),
    "nova_usage": listed(usage, lambda usages: {"server_usages": usages}),
    "usage_series": lines(
        lambda rng, at: f"{1_700_000_000 + 300 * at},{rng.randrange(9)}", "timestamp,vcpus"
    ),
    "lcrc": lines(
        lambda rng, at: ",".join(map(str, (at, *(rng.randrange(99) for _ in range(7))))),
        "SubmitTime,StartTime,EndTime,QueuedTime,RunTime,NodesRequested,walltime,bslowdown",
    ),
    "aps": lines(
        lambda rng, at: ",".join(map(str, (at, *(rng.randrange(99) for _ in range(4))))),
        "submit_time,start_time,end_time,run_time,wait_time",
    ),
}
