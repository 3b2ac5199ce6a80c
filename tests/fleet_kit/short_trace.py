"""Forty short jobs of a real log, with leases, for a fleet of eight nodes."""

import lzma

import yaml

from testdata import TRACES

KTH = TRACES / "KTH-SP2-1996-2.swf.xz"
NODES = 8
_SUBMIT, _RUN, _PROCS = 1, 3, 4


def write_scenario(folder, *, name, jobs=40, **live):
    """NAME.yaml and its log in `folder`: the first narrow and short jobs of the log, more densely."""
    kept = []
    for line in lzma.decompress(KTH.read_bytes()).decode().splitlines():
        fields = line.split()
        if line.startswith(";") or not (
            0 < int(fields[_RUN]) <= 3600 and 0 < int(fields[_PROCS]) <= NODES // 2
        ):
            continue
        kept.append(fields)
    kept = kept[:jobs]
    first_s, last_s = (int(kept[at][_SUBMIT]) for at in (0, -1))
    for fields in kept:
        fields[_SUBMIT] = str(int(fields[_SUBMIT]) - first_s)
    (folder / "kth.swf").write_text(
        "; MaxNodes: 8\n; MaxProcs: 8\n" + "".join(" ".join(f) + "\n" for f in kept)
    )
    days = (last_s - first_s) / 86_400
    leases = {"days": days, "leases_per_day": round(14 / days, 3), "utilisation": 0.012, "mean_nodes": 1.5}
    leases |= {"mean_duration_s": 900, "max_duration_s": 1800, "day_begin_s": 0}
    document = {
        "name": name,
        "seed": 5,
        "nodes": NODES,
        "workload": {
            "trace": "kth.swf",
            "generate": [{"bursty_leases": leases}],
            "transforms": [{"scale_interarrival": {"factor": round(9_000 / (last_s - first_s), 6)}}],
        },
        "mechanism": {"balancer": {"static_reserve": 1, "wait_s": 300, "idle_reserve_s": 600}},
        "live": {"speed": 600} | live,
    }
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document))
    return path
