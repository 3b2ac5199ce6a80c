"""Files that people try and that are no job log: each is named, with what to export in its place."""

from __future__ import annotations

import subprocess

import pytest

from emulator.workload.files import TraceError
from emulator.workload.formats import load

SERVERS = (
    '"ID","Name","Status","Task State","Power State","Host"\n"a1","vm1","ACTIVE","None","Running","h1"\n'
)
GWF = (
    "# Version: 1.0\n# Computer: DAS-2\n# 1:JobID 2:SubmitTime 3:WaitTime 4:RunTime 5:NProcs\n"
    "1\t1138000000\t10\t100\t2\t-1\t-1\t2\t900\t-1\t1\tU1\tG1\tX1\tfs0\t-1\tS1\tS1\tUNITARY\t-1\n"
)
SACCT_LINE = ("10", "2026-05-01T00:00:00", "2026-05-01T00:10:00", "COMPLETED", "4")
FLUX = '{"jobs":[{"id":66571993088,"userid":1001,"t_submit":1701721940.2,"t_run":1701721940.3,"nnodes":2}]}'
EVENTS = '[{"event_type":"compute.instance.create.end","generated":"2018-04-17T19:23:00","instance_id":"i1","vcpus":2}]'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("JobId=1 JobName=a\n   UserId=u(100)\n   JobState=COMPLETED\n", "scontrol shows"),
        ("JobId=2 ArrayJobId=1 ArrayTaskId=2 JobName=a\n   JobState=COMPLETED\n", "scontrol shows"),
        ("JobId=7 UserId=a(1) GroupId=p(1) Name=r JobState=COMPLETED\n", "jobcomp/filetxt"),
        *((mark.join(SACCT_LINE) + "\n", "write it again without -n") for mark in "|,;^\t "),
        ("JobID|Submit|Start|Elapsed\n1|2|3|4\n", "with the column State"),
        (SERVERS, '-f json and --long -c ID -c "Created At"'),
        (EVENTS, "events of Ceilometer"),
        ('{"leases": [{"id": "a", "start_date": "2026-03-01", "end_date": "2026-03-02"}]}', "leases of Blazar"),
        ('[{"ID": "a", "Name": "x", "Start Date": "2026-03-01", "End Date": "2026-03-02"}]', "leases of Blazar"),
        ('"id","name","start_date","end_date"\n"a","x","2026-03-01","2026-03-02"\n', "leases of Blazar"),
        (FLUX, "jobs of Flux"),
        ("       JOBID USER     NAME       ST NTASKS NNODES     TIME INFO\n", "the table of flux jobs"),
        (GWF, "the Grid Workload Format"),
        ("Summary of time in seconds spent in various states:\nJOBID   USER    JOB_NAME  PEND\n", "logdir/lsb.acct"),
        ("Cluster Utilization 2026-01-01T00:00:00 - 2026-01-31T23:59:59\n", "sreport shows sums"),
        ("-----\nTop 10 Users 2026-01-01T00:00:00 - 2026-01-31T23:59:59\n", "sreport shows sums"),
        ('{\n  "format": "emulator-results/1",\n  "jobs_in": 3}', "results of a run"),
        ('job_id,workload_name,submission_time,starting_time,finish_time\n1,"x",0,4,8\n', "results of a run"),
        ('{"name": "x", "nodes": 8, "workload": {"trace": "a.swf"}}', "a name that ends in .yaml"),
        ("10:28:16 1110378496:33 job 103 JOBEND 0 1 ann phys 86400 Completed [batch] 1110378489\n", "Moab or Maui"),
        ("VERSION 230\n", "Moab or Maui"),
        ("completed jobs------------------\nJOBID S CCODE PAR EFFIC\n", "Moab's showq"),
        ("03/01/2026 11:00:10;0100;PBS_Server;Job;21.srv;enqueuing into workq, state 1 hop 1\n", "(server_logs)"),
        ("03/01/2026 11:00:10.123456;0008;Server@srv;Job;21.srv;Job Run at request of root\n", "(server_logs)"),
        ("Job Id: 21.srv\n    Job_Name = a\n", "qstat shows"),
        ("=" * 62 + "\nqname        all.q\nhostname     n1\n", "qacct's report"),
        ('"JOB_NAME","COBALT_JOBID","MACHINE_NAME"\n"7.theta","7","theta"\n', "composite of ALCF"),
        ('{"jobs":[{"job_id":7,"job_state":["RUNNING"],"submit_time":{"number":5}}]}', "squeue and scontrol show"),
        ("JOBID|PARTITION|ST\n1|a|R\n", "squeue and scontrol show"),
        ('{"job_id":7,"association":{"user":"a"},"time":{}}\n', "without the document around them"),
        ('{"meta":{},"jobs":[],"errors":[]}', "a document without jobs"),
        *((text, "there is nothing in it") for text in ("[]", "{}", "null", " \n\n")),
        ('{"jobid":5,"@submit":"2026-01-01T00:00:00","state":"COMPLETED"}\n', "jobcomp/elasticsearch"),
        ("[2026-01-01T00:00:00.000] sched: Allocate JobId=5 NodeList=n1\n", "a log of Slurm's daemons"),
        ("PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n", "sinfo and seff"),
        ("Cluster/Account/User Utilization 2026-01-01T00:00:00 - 2026-01-31T23:59:59\n", "sreport shows sums"),
        ("Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User\n", "(--down-nodes of trace check and study)"),
        ("-- MySQL dump 10.13\nINSERT INTO `x_job_table` VALUES (1);\n", "a dump of a database"),
        ("+----+------+\n| ID | Name |\n", "a table for people"),
        ('[{"timestamp":"2026-01-01T00:00:00+00:00","granularity":300.0,"value":4.0}]', "write them again with -f csv"),
        ('[{"ID":"a","Name":"x","Status":"ACTIVE","Networks":{}}]', "when its servers began"),
        ('{"CPU Hours":1.0,"Project":"x","Servers":12}', "os-simple-tenant-usage?detailed=1"),
        ('{"event_type":"instance.create.end","payload":{}}', "events of Ceilometer"),
        ("Job: 67.srv\n\n06/04/2026 10:04:42  A    user=a group=x\n", "tracejob's report"),
        ("1/5/2026 12:00:00 PM;E;7.srv;user=a\n", "wrote their dates anew"),
        ('{"COMMAND":"bjobs","JOBS":1,"RECORDS":[{"JOBID":"1","STAT":"DONE"}]}', "bjobs shows jobs"),
        ('<classads>\n<c>\n<a n="ClusterId"><i>1</i></a></c></classads>', "-json in place of -xml"),
        ("meta:\n  plugin:\njobs:\n- account: a\n  allocation_nodes: 1\n  job_id: 1\n", "sacct --yaml"),
        ("<?xml version='1.0'?>\n<job_info  xmlns:xsd=\"x\">\n", "take Grid Engine's accounting"),
        (" ".join(["1"] * 17) + "\n", "it has 18 columns"),
        (GWF.splitlines()[-1] + "\n", "the Grid Workload Format"),
        ("103 0 1 ann phys 86400 Completed [batch:1] 1110378489 1110378490\n", "Moab or Maui"),
        ("Job id              Name   User    Time Use S Queue\n", "qstat shows"),
        ("Job id     Name           User           Submission Date     S Queue\n", "-f -J"),
        ("7:\n  Job_Id: 7\n  assigned_network_address: []\n", "-f -J"),
        ("000 (005.000.000) 2026-01-01 10:00:00 Job submitted from host\n", "take condor_history -json"),
        ("Job <7>, User <ann>, Project <default>, Command <sleep>\n", "lsb.acct"),
        (":".join(["all.q", "n1", "g", "a", "x:y", "0"] * 8) + "\n", "a ':' in a name shifts the fields"),
        (",".join(["1"] * 18) + "\n", "put blanks for its commas"),
        ("job_id,submit_time,start_time,end_time,nodes\n1,5,6,7,4\n", "call its columns as sacct does"),
        ('[{"job_number": 1, "qname": "q", "submission_time": 5}]', "records of Grid Engine in one list"),
        ('"Local Job Id","Submit Time (Timestamp)","Wall Time"\n5,6,7\n', "as XDMoD exports them"),
        ('{"success":true,"data":[{"local_job_id":5,"submit_time_ts":1}]}', "as XDMoD exports them"),
        ('{"timestamp":1772359200.1,"name":"submit","context":{"userid":1}}\n', "events of a job of Flux"),
        ("1 0 5 10 2 -1 -1 2 20 -1 1 ann phys a b c -1\n", "the Grid Workload Format"),
        ("1 0 5 10,5 2 -1 -1 2 20 -1 1 1 1 -1 1 -1 -1 -1\n", "fractions have points"),
        ("1 0 5 nan 2 -1 -1 2 20 -1 1 1 1 -1 1 -1 -1 -1\n", "-1 stands for what is unknown"),
        ("2026-03-01 12:00:00;E;7.srv;user=a\n", "wrote their dates anew"),
        ("<!DOCTYPE html>\n<html></html>\n", "a web page"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "a pointer of Git LFS"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_log_is_named_with_what_to_take_instead(tmp_path, text, says):
    path = tmp_path / "tried"
    path.write_text(text)
    with pytest.raises(TraceError) as caught:
        load(path)
    said = str(caught.value)
    assert said.startswith(f"{path}: not a trace in a known format")
    assert says in said
    assert said.count(";") <= 3, "one hint, not several"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"PK\x03\x04rest", "a ZIP archive"),
        (b"BZh91AY", "bzip2"),
        (b"\x28\xb5\x2f\xfdrest", "zstd"),
        ("JobID|State".encode("utf-16"), "UTF-16"),
        ("JobID|State".encode("utf-16-le"), "UTF-16"),
        ("JobID|State".encode("utf-16-be"), "UTF-16"),
        (b"PAR1rest", "Parquet"),
        (b"7z\xbc\xaf\x27\x1c", "an archive or compressed"),
        (b"x" * 257 + b"ustar\x0000", "a tar archive"),
        (b"\x80\x04\x95rest", "data of a program"),
        (b"SQLite format 3\x00", "SQLite"),
    ],
)
def test_a_file_that_is_no_text_is_named_too(tmp_path, content, says):
    path = tmp_path / "tried"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=says):
        load(path)


@pytest.mark.parametrize("name", ["log.swf.zst", "log.swf"])
def test_a_name_says_nothing_against_the_bytes(tmp_path, name):
    (tmp_path / name).write_bytes(b"\x28\xb5\x2f\xfdrest")
    with pytest.raises(TraceError, match="compressed with zstd: unpack it"):
        load(tmp_path / name)


def test_what_is_not_known_gets_no_hint(tmp_path):
    path = tmp_path / "tried"
    path.write_text("a shopping list\n")
    with pytest.raises(TraceError, match=r"usage_series\)$"):
        load(path)


def test_the_command_for_the_grid_workload_format_makes_an_swf_log(tmp_path):
    path = tmp_path / "das2.gwf"
    path.write_text(GWF)
    with pytest.raises(TraceError) as caught:
        load(path)
    command = str(caught.value).partition("SWF: ")[2].replace("IN", str(path))
    command = command.replace("out.swf", str(tmp_path / "out.swf"))
    subprocess.run(command, shell=True, check=True)  # noqa: S602 - the command of the hint
    log = load(tmp_path / "out.swf")
    assert [column.tolist() for column in log.columns[:9]] == [
        [1], [1138000000], [10], [100], [2], [-1], [-1], [2], [900],
    ]  # fmt: skip


def test_a_folder_of_files_that_are_read_one_by_one_says_so(tmp_path):
    (tmp_path / "a.txt").write_text("anything\n")
    (tmp_path / "b.swf").write_text("1 0 5 10 2 -1 -1 2 20 -1 1 1 1 -1 1 -1 -1 -1\n")
    with pytest.raises(TraceError, match=r"b.swf is in the format swf: name the file, or put"):
        load(tmp_path)
