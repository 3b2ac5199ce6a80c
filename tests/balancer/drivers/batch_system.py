"""The client programs of a batch system that lives in a JSON file; run by a wrapper on PATH.

`python batch_system.py STATE PROGRAM ARGS...`. The state: `system`, `nodes` (name -> marked, jobs, down, reason),
`fault` (kind of program -> name of a fault; see FAULTS in conformance.py) and `snapshot` (nodes as they were).
Standard library only: it is started for every command.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

UNREACHABLE = {
    "torque": "pbsnodes: cannot connect to server server, error=111 (Connection refused)",
    "openpbs": "pbsnodes: cannot connect to server pbsserver, error=15010",
    "slurm": "slurm_load_node error: Unable to contact slurm controller (connect failure)",
}
KINDS = {"pbsnodes": "change", "scontrol": "change", "qstat": "jobs", "squeue": "jobs", "qmgr": "kick"}


def kind_of(program, arguments):
    reads = program == "pbsnodes" and arguments[0] in ("-x", "-av")
    return "read" if reads or (program == "scontrol" and "show" in arguments) else KINDS[program]


def torque_nodes(nodes, fault):
    text = "<Data>"
    for name, node in nodes.items():
        words = [word for word, has in (("down", node["down"]), ("offline", node["marked"])) if has]
        words += ["job-exclusive"] if node["jobs"] else []
        state = "weird" if fault == "unknown state" else ",".join(words) or "free"
        jobs = f"<jobs>0-1/{node['jobs'][0]}</jobs>" if node["jobs"] and fault != "missing job" else ""
        text += f"<Node><name>{name}</name><state>{state}</state>{jobs}<note>{node['reason']}</note></Node>"
    return text + "</Data>\n"


def openpbs_nodes(nodes, fault):
    table = {}
    for name, node in nodes.items():
        words = [word for word, has in (("down", node["down"]), ("offline", node["marked"])) if has]
        words += ["job-exclusive"] if node["jobs"] else []
        table[name] = {
            "state": "weird" if fault == "unknown state" else ",".join(words) or "free",
            "resources_assigned": {"ncpus": 2} if node["jobs"] else {},
            "comment": node["reason"],
        }
        if node["jobs"] and fault != "missing job":
            table[name]["jobs"] = node["jobs"]
    return json.dumps({"pbs_server": "pbsserver", "nodes": table}, indent=1) + "\n"


def slurm_nodes(nodes, fault):
    text = ""
    for name, node in nodes.items():
        state = "DOWN" if node["down"] else "ALLOCATED" if node["jobs"] else "IDLE"
        state = "WEIRD" if fault == "unknown state" else state
        drain = node["marked"]
        reason = f" Reason={node['reason']} [root@2026-11-21T01:00:00]" if node["reason"] else ""
        text += (
            f"NodeName={name} CPUAlloc={1 if node['jobs'] else 0} CPUTot=1 State={state}{'+DRAIN' if drain else ''} "
            f"BootTime=2026-11-21T00:00:00 CfgTRES=cpu=1 AllocTRES= {reason}\n"
        )
    return text


def jobs_of(system, nodes, fault):
    held = {}
    for name, node in nodes.items():
        for job in node["jobs"] if fault != "missing job" else ():
            held.setdefault(job.split(".")[0] if fault == "short job id" else job, []).append(name)
    if system == "torque":
        each = "<Job><Job_Id>{}</Job_Id><Walltime><Remaining>300</Remaining></Walltime></Job>"
        return "<Data>" + "".join(each.format(job) for job in held) + "</Data>\n"
    if system == "openpbs":
        used = {"Resource_List": {"walltime": "00:05:00"}, "job_state": "R"}
        return json.dumps({"pbs_server": "pbsserver", "Jobs": dict.fromkeys(held, used)}) + "\n"
    lines = [
        f"{job[:1] if fault == 'short job id' else job}|RUNNING|5:00|{','.join(on)}"
        for job, on in held.items()
    ]
    return "\n".join(["JOBID|STATE|TIME_LEFT|NODELIST", *lines]) + "\n"


def change(state, arguments):
    """The effect; returns (standard error, exit status) as the real program does."""
    system, nodes = state["system"], state["nodes"]
    if system == "slurm":
        names = arguments[1].removeprefix("nodename=").split(",")
        marks = "state=drain" in arguments
        reason = arguments[-1].removeprefix("reason=") if arguments[-1].startswith("reason=") else ""
        if arguments[2].startswith("reason="):
            for name in names:
                nodes[name]["reason"] = reason
            return "", 0
    else:
        marks = arguments[0] == "-o"
        reason = "" if arguments[2] == "n" else arguments[2]
        names = arguments[3:]
    wrong = [name for name in names if name not in nodes]
    for name in names:
        if name in nodes:
            if system == "slurm" and not marks and not nodes[name]["marked"]:
                return "slurm_update error: Invalid node state specified", 1
            nodes[name]["marked"] = marks
            nodes[name]["reason"] = reason
    said = {"slurm": "slurm_update error: Invalid node name specified"}.get(system, f"Unknown node {wrong}")
    return (said, 0 if system == "torque" else 1) if wrong else ("", 0)


def hang():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # A child in its own session keeps our pipes open after we have been killed; it ends by itself.
    subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(3)"], start_new_session=True)
    time.sleep(60)


def fail_at_once(system, fault):
    """The faults that come before anything else."""
    if fault == "restarted":
        sys.stderr.write(UNREACHABLE[system] + "\n")
    if fault in ("restarted", "exit not 0"):
        sys.exit(1)
    if fault == "hang":
        hang()
    if fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "no effect":
        sys.exit(0)


def read(system, nodes, wanted, fault):
    if system == "torque" and wanted:
        if any(name not in nodes for name in wanted):
            sys.stderr.write("pbsnodes: cannot locate specified node\n")
            sys.exit(1)
        nodes = {name: nodes[name] for name in wanted}
    if fault == "short job id":
        nodes = {n: {**v, "jobs": [j.split(".")[0] for j in v["jobs"]]} for n, v in nodes.items()}
    return {"torque": torque_nodes, "openpbs": openpbs_nodes, "slurm": slurm_nodes}[system](nodes, fault)


def spoiled(out, fault):
    if fault == "banner":
        return "*** This system is for authorised use only ***\n" + out
    if fault.startswith("truncated"):
        return out[: len(out) * int(fault.split()[1]) // 100]
    return out


def main():
    path, program, *arguments = sys.argv[1:]
    state = json.loads(Path(path).read_text(encoding="utf-8"))
    kind, system = kind_of(program, arguments), state["system"]
    fault = state["fault"].get(kind, "")
    fail_at_once(system, fault)
    out, err, status = "", "", 0
    nodes = state["snapshot"] if fault == "stale" else state["nodes"]
    if kind == "change":
        err, status = change(state, arguments)
        # Whoever kills this program finds the old state or the new one.
        new = Path(f"{path}.{os.getpid()}")
        new.write_text(json.dumps(state), encoding="utf-8")
        new.replace(path)
    elif kind == "read":
        out = read(system, nodes, arguments[1:], fault)
    elif kind == "jobs":
        out = jobs_of(system, nodes, fault)
    sys.stdout.write(spoiled(out, fault))
    sys.stdout.flush()
    sys.stderr.write(err)
    if fault == "hang after the effect":
        hang()
    sys.exit(1 if fault == "effect with lost reply" else status)


main()
