"""Each reader against a few lines of awk, on files that nobody here made up (`tests/recorded/README.md`, `traces/`).

What is compared: the jobs, the seconds of nodes or processors that they took, and the seconds that they waited.
"""

from __future__ import annotations

import json
import lzma
import os
import shutil
import subprocess

import pytest

from emulator.workload.formats import find_format
from testdata import RECORDED, TRACES

SITES = RECORDED / "sites"
SUM = 'END { printf "%d %.0f %.0f", jobs, work, waited }'
LAST_RECORDS = "END { for (job in run) { jobs++; work += run[job]; waited += wait[job] } " + SUM.removeprefix(
    "END { "
)
WEEKS = ("2013-12-01", "2014-01-26", "2014-03-09")


@pytest.fixture
def sums(tmp_path):
    """Of a text in a format: jobs, work and waits, by its reader and by a program of awk."""

    def of(text, trace_format, program, *, size="allocated_procs", mark=" ", same=None):
        """`same`: the text that awk reads instead, with the same jobs."""
        path, other = tmp_path / "log", tmp_path / "other"
        path.write_text(text)
        other.write_text(text if same is None else same)
        found = find_format(path)
        assert found.name == trace_format
        log = found.read(path)
        sizes, run_s, wait_s = (
            log.nodes if name == "nodes" else log.column(name) for name in (size, "run_s", "wait_s")
        )
        kept = (run_s >= 0) & (sizes > 0)
        read = (len(log), (run_s * sizes)[kept].sum(), wait_s[wait_s >= 0].sum())
        command, environment = ["awk", "-F", mark, program, other], {**os.environ, "TZ": "UTC"}
        said = subprocess.run(
            command, capture_output=True, text=True, check=True, env=environment
        ).stdout.split()
        return [round(float(each)) for each in read], [int(each) for each in said]

    return of


def packed(name):
    return lzma.open(TRACES / name, "rt").read()


def recorded(name):
    """What a command printed."""
    lines = (RECORDED / name).read_text().splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(("$ ", "--- ")))


@pytest.mark.parametrize("log", ["KTH-SP2-1996-2.1-cln", "SDSC-SP2-1998-4.2-cln", "theta_2023"])
def test_swf(sums, log):
    by_reader, by_awk = sums(
        packed(f"{log}.swf.xz"),
        "swf",
        "!/^;/ && NF { jobs++; if ($4 >= 0 && $5 > 0) work += $4 * $5; if ($3 >= 0) waited += $3 }" + SUM,
    )
    assert by_reader == by_awk
    assert by_awk[0] > 5000


@pytest.mark.parametrize("week", WEEKS)
@pytest.mark.parametrize(
    ("site", "sum_up"),
    [
        ("lcrc", "work += $5 * $6; waited += $2 - $1"),
        ("aps", "work += $4; waited += $2 - ($1 > 0 ? $1 : 0)"),
    ],
)
def test_weeks(sums, site, week, sum_up):
    by_reader, by_awk = sums(
        packed(f"{site}/{week}.csv.xz"), site, f"NR > 1 {{ jobs++; {sum_up} }}{SUM}", mark=","
    )
    assert by_reader == by_awk
    assert by_awk[0] > 100


@pytest.mark.parametrize(
    "name", ["torque/accounting-log.txt", "openpbs/accounting-log.txt", "sites/accounting"]
)
def test_pbs(sums, name):
    """The last E record of each job. Nodes: the different names of `exec_host`."""
    by_reader, by_awk = sums(
        recorded(name),
        "pbs",
        """
        $2 == "E" {
            nodes = 0; split("", seen); count = split($4, said, " ")
            for (at = 1; at <= count; at++) {
                place = index(said[at], "="); value = substr(said[at], place + 1)
                of[substr(said[at], 1, place - 1)] = value
            }
            hosts = split(of["exec_host"], host, "+")
            for (at = 1; at <= hosts; at++) { sub("/.*", "", host[at]); if (!seen[host[at]]++) nodes++ }
            run[$3] = (of["end"] - of["start"]) * nodes; wait[$3] = of["start"] - of["ctime"]
        }"""
        + LAST_RECORDS,
        size="nodes",
        mark=";",
    )
    assert by_reader == by_awk
    assert by_awk[0] > 3


SACCT = (
    """
    NR == 1 { for (at = 1; at <= NF; at++) column[$at] = at; next }
    $column["JobIDRaw"] !~ /[.]/ {
        job = $column["JobIDRaw"]; state = $column["State"]
        run[job] = state ~ /PENDING|REQUEUED/ ? 0 : $column["ElapsedRaw"] * $column["NNodes"]; wait[job] = 0
    }"""
    + LAST_RECORDS
)
"""The last row of each job. Times are dates, of which awk makes no seconds: waits are left out."""


@pytest.mark.parametrize("name", ["workload-trace", "unix-times"])
def test_sacct(sums, name):
    by_reader, by_awk = sums(recorded(f"slurm/sacct-{name}.txt"), "sacct", SACCT, size="nodes", mark="|")
    assert by_reader[:2] == by_awk[:2]
    assert by_awk[1] > 0


def test_sacct_json(sums):
    """One hour as JSON, and as the table that sacct printed of it; the components of a job have `JobID` 5+0, 5+1."""
    by_reader, by_awk = sums(
        recorded("slurm/sacct-forms-json.txt"),
        "sacct_json",
        SACCT.replace('job = $column["JobIDRaw"]', 'job = $column["JobID"]; sub("[+].*", "", job)').replace(
            "run[job] =", "run[job] +="
        ),
        size="nodes",
        mark="|",
        same=recorded("slurm/sacct-forms-parsable.txt"),
    )
    assert by_reader[:2] == by_awk[:2]
    assert by_awk[1] > 0


def parts(name):
    """The records of a file of `sites`, each of another site's."""
    return (SITES / name).read_text().splitlines(keepends=True)


@pytest.mark.parametrize("record", parts("grid_engine"))
def test_grid_engine(sums, record):
    """Releases of Univa write milliseconds."""
    by_reader, by_awk = sums(
        record,
        "grid_engine",
        "{ s = length($9) > 10 ? 1000 : 1; jobs++; work += ($11 - $10) / s * $35; waited += ($10 - $9) / s }"
        + SUM,
        mark=":",
    )
    assert by_reader == by_awk
    assert by_awk[1] > 0


@pytest.mark.parametrize("record", [part for part in parts("lsb.acct") if "JOB_FINISH" in part])
def test_lsf(sums, record):
    """Fields up to the start have no blanks."""
    by_reader, by_awk = sums(record, "lsf", "{ jobs++; work += ($3 - $11) * $7; waited += $11 - $8 }" + SUM)
    assert by_reader == by_awk
    assert by_awk[1] > 0


@pytest.mark.parametrize("number", ["36627", "72", "13056638"])
def test_oar(sums, number):
    """A field a line; a job that has not ended took nothing yet."""
    job = json.loads((SITES / "oarstat.json").read_text())[number]
    by_reader, by_awk = sums(
        json.dumps({number: job}, indent=0),
        "oar",
        """
        { name = $1; value = $2; gsub(/[^A-Za-z_]/, "", name); gsub(/[^A-Za-z0-9]/, "", value); of[name] = value }
        name == "assigned_resources" { inside = 1; next }
        inside && /^[]]/ { inside = 0 }
        inside { resources++ }
        END {
            jobs = 1; waited = of["startTime"] - of["submissionTime"]
            if (of["state"] == "Terminated") work = (of["stopTime"] - of["startTime"]) * resources
            printf "%d %.0f %.0f", jobs, work, waited
        }""",
        mark=":",
    )
    assert by_reader == by_awk


@pytest.mark.parametrize("name", ["condor_history", "condor_queue"])
def test_condor(sums, name):
    """Jobs stand between empty lines; one without a completion runs still."""
    by_reader, by_awk = sums(
        (SITES / name).read_text(),
        "condor",
        """
        function over() {
            if (!("QDate" in of)) return
            start = of["JobCurrentStartDate"] + 0 ? of["JobCurrentStartDate"] : of["JobStartDate"]
            jobs++; waited += start - of["QDate"]; processors = of["RequestCpus"] ? of["RequestCpus"] : 1
            if (of["CompletionDate"]) work += (of["CompletionDate"] - start) * processors
            split("", of)
        }
        NF == 0 { over(); next }
        { of[$1] = $3 }
        END { over(); printf "%d %.0f %.0f", jobs, work, waited }""",
    )
    assert by_reader == by_awk
    assert by_awk[2] > 0


@pytest.mark.parametrize(("name", "field"), [("delays", "delay"), ("sequences", "expected_execution_time")])
def test_batsim(sums, name, field):
    """Batsim 5 writes beside each profile how long it takes."""
    by_reader, by_awk = sums(
        (SITES / f"batsim_{name}.json").read_text(),
        "batsim",
        """
        BEGIN { RS = "}" }
        function after(word) {
            text = $0; sub(".*\\"" word "\\": *", "", text); sub(/[,"\\n].*/, "", text)
            return text
        }
        /"profile": / {
            resources = after("res") + 0; named = $0; sub(/.*"profile": "/, "", named); sub(/".*/, "", named)
            jobs++; wanted[named] += resources
        }
        /"type": / {
            named = $0; sub(/": [{].*/, "", named); sub(/.*"/, "", named)
            if (named == "profiles") { named = $0; sub(/.*"profiles": [{][^"]*"/, "", named); sub(/".*/, "", named) }
            takes[named] = after("FIELD") + 0
        }
        END { for (each in wanted) work += wanted[each] * takes[each]; printf "%d %.0f %.0f", jobs, work, 0 }
        """.replace("FIELD", field),
        size="requested_procs",
    )
    assert by_reader == by_awk
    assert by_awk[1] > 0


VALUES = """
    function unix(time) { gsub(/[-:TZ]/, " ", time); sub(/[.].*/, "", time); return mktime(time) }
    function see(time) { if (time > newest) newest = time; return time }
    { value = $4; if (NF < 5) { value = $3; gsub(/[:, ]/, "", value) } said[$2, ++times[$2]] = value }
"""
"""Of JSON with a name a line, each value by its name and place. Everything that runs does so until the newest time."""


def documents(*found):
    """As a command prints them, one behind the other."""
    return "\n".join(json.dumps(each, indent=0) for each in found)


def printed_by_client(command):
    commands = json.loads((RECORDED / "nova/50-cli.json").read_text())["commands"]
    return next(each["stdout"] for each in commands if each["command"] == f"openstack {command} -f json")


def answered(name, end):
    """What Nova answered to the first request whose address ends so."""
    exchanges = json.loads((RECORDED / f"nova/{name}.json").read_text())["exchanges"]
    return next(each["response_body"] for each in exchanges if each["url"].endswith(end))


def site_json(name):
    return json.loads((SITES / name).read_text())


def test_sacct_json_of_slurm_21(sums):
    """Names and states are plain in it, and a job without a reservation has the number 0 for its name."""
    by_reader, by_awk = sums(
        documents(site_json("sacct_21.08.json")),
        "sacct_json",
        VALUES
        + """
        END {
            for (job = 1; job <= times["elapsed"]; job++) {
                jobs++
                if (said["current", job] == "REQUEUED") continue
                work += said["elapsed", job] * said["allocation_nodes", job]
                waited += said["start", job] - said["eligible", job]
            }
        """
        + SUM.removeprefix("END {"),
        size="nodes",
        mark='"',
    )
    assert by_reader == by_awk
    assert by_awk[0] == 4


def test_slurm_21_has_no_reservation_of_the_name_0():
    path = SITES / "sacct_21.08.json"
    assert find_format(path).read(path).names_of("Reservation") == {}


@pytest.mark.parametrize("report", [printed_by_client("usage show"), site_json("nova_usage.json")])
def test_nova_usage(sums, report):
    by_reader, by_awk = sums(
        documents(report),
        "nova_usage",
        VALUES
        + """
        END {
            for (at = 1; at <= times["stop"]; at++) see(unix(said["stop", at]))
            for (at = 1; at <= times["started_at"]; at++) {
                end[at] = said["ended_at", at] == "null" ? 0 : see(unix(said["ended_at", at]))
                begin[at] = see(unix(said["started_at", at]))
            }
            for (at in begin) {
                jobs++; work += ((end[at] ? end[at] : newest) - begin[at]) * said["vcpus", at]
            }
        """
        + SUM.removeprefix("END {"),
        mark='"',
    )
    assert by_reader == by_awk
    assert by_awk[1] > 0


@pytest.mark.parametrize(
    "servers",
    [
        [printed_by_client("server show cli-1"), printed_by_client("server show cli-over")],
        [answered("28-multi-create", "/servers/detail")],
        [answered("22-server-lifecycle", "/servers/detail"), answered("25-no-valid-host", "?status=ERROR")],
    ],
)
def test_nova_servers(sums, servers):
    """One that was never launched took nothing; its fault has a time of its own."""
    by_reader, by_awk = sums(
        documents(*servers),
        "nova_servers",
        """
        $2 == "fault" { inside = 1 }
        inside { if (/^[}]/) inside = 0; next }
        """
        + VALUES
        + """
        END {
            for (at = 1; at <= times["created"]; at++) {
                see(unix(said["created", at])); see(unix(said["updated", at]))
            }
            for (at = 1; at <= times["created"]; at++) {
                jobs++
                if (said["OS-SRV-USG:launched_at", at] != "null")
                    work += (newest - unix(said["created", at])) * said["vcpus", at]
            }
        """
        + SUM.removeprefix("END {"),
        mark='"',
    )
    assert by_reader == by_awk
    assert by_awk[1] > 0


@pytest.mark.parametrize(
    "text",
    [
        documents(
            printed_by_client("server event list cli-1"),
            answered("22-server-lifecycle", "/os-instance-actions"),
            answered("25-no-valid-host", "/os-instance-actions"),
        ),
        (SITES / "nova_events.json").read_text(),
    ],
)
def test_nova_events(sums, text):
    """A server that was stopped keeps its place."""
    by_reader, by_awk = sums(
        text,
        "nova_events",
        VALUES
        + """
        $2 ~ /^(Server ID|instance_uuid)$/ { server = $4 }
        $2 ~ /^(Action|action)$/ { action = $4 }
        $2 ~ /^(Start Time|start_time)$/ { time = see(unix($4)) }
        /^ *[}]/ && action == "create" { begin[server] = time }
        /^ *[}]/ && action == "delete" { end[server] = time }
        END { for (server in begin) { jobs++; work += (server in end ? end[server] : newest) - begin[server] }
        """
        + SUM.removeprefix("END {"),
        mark='"',
    )
    assert by_reader == by_awk
    assert by_awk[0] > 1
    assert by_awk[1] > 0


def test_usage_series(sums):
    """A unit is a row from when the sum of all series rises by it; the last sample holds as long as the others."""
    by_reader, by_awk = sums(
        (SITES / "prometheus_range.json").read_text(),
        "usage_series",
        """
        /\\[ [0-9]/ {
            gsub(/[^0-9.,]/, ""); split($0, sample, ","); time = sample[1]
            if (!(time in used)) order[++count] = time
            used[time] += sample[2]
        }
        END {
            for (at = 1; at <= count; at++) {
                more = used[order[at]] - used[order[at - 1]]
                if (more > 0) jobs += more
                work += used[order[at]] * (at < count ? order[at + 1] - order[at] : order[2] - order[1])
            }
        """
        + SUM.removeprefix("END {"),
    )
    assert by_reader == by_awk
    assert by_awk[0] > 20


def test_usage_series_of_a_table(sums, column_named):
    """A part of a unit is one, and a sample holds for three steps at most."""
    column_named("value")
    by_reader, by_awk = sums(
        (SITES / "cloudwatch.csv").read_text(),
        "usage_series",
        VALUES.splitlines()[1]
        + """
        NR > 1 {
            time = unix($1); step = time - before
            if (NR == 2) step = 0
            if (step > 900) { work += used * 900; used = 0 } else work += used * step
            now = int($2) + ($2 > int($2))
            if (now > used) jobs += now - used
            used = now; before = time
        }
        END { work += used * 300;
        """
        + SUM.removeprefix("END {"),
        mark=",",
    )
    assert by_reader == by_awk
    assert by_awk[0] > 20


def test_elastisim(sums, tmp_path):
    """How often a model waits for a second depends on a job's nodes, by a formula."""
    shutil.copytree(SITES / "elastisim", tmp_path / "elastisim")
    by_reader, by_awk = sums(
        documents(site_json("elastisim/jobs.json")),
        "elastisim",
        VALUES
        + """
        $2 ~ /^num_nodes(_min)?$/ { nodes = value }
        $2 == "iterations" { iterations = value }
        $2 == "base_nodes" { jobs++; work += int(iterations * (nodes / value)) * nodes }
        """
        + SUM,
        mark='"',
    )
    assert by_reader == by_awk
    assert by_awk[0] == 4
