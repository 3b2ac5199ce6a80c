"""Torque's errors: the number becomes the command's exit status, the text is what users see."""

from __future__ import annotations


class PbsError(Exception):
    """A request that the server refuses. `status` is the PBS error number modulo 256."""

    def __init__(self, status: int, text: str, detail: str = "") -> None:
        super().__init__(f"{text} {detail}" if detail else text)
        self.status = status


UNKNOWN_JOB = 153
UNAUTHORIZED = 159
BAD_VALUE = 168
BAD_STATE = 170
UNKNOWN_QUEUE = 172
UNKNOWN_RESOURCE = 189
EXCEEDS_LIMITS = 190
NOT_RERUNNABLE = 192

# Some of these texts end with a blank: Torque puts it between the text and what follows.


def unknown_job(job_id: str) -> PbsError:
    return PbsError(UNKNOWN_JOB, "Unknown Job Id Error", job_id)


def unauthorized(detail: str = "") -> PbsError:
    return PbsError(UNAUTHORIZED, "Unauthorized Request ", detail)


def bad_state(job_id: str, detail: str) -> PbsError:
    return PbsError(BAD_STATE, "Request invalid for state of job", f"MSG={detail} {job_id}")


def bad_value(attribute: str) -> PbsError:
    return PbsError(BAD_VALUE, "Illegal attribute or resource value for", attribute)


def unknown_resource(name: str) -> PbsError:
    return PbsError(UNKNOWN_RESOURCE, "Unknown resource type ", f"Resource_List.{name}")


def unknown_queue() -> PbsError:
    return PbsError(UNKNOWN_QUEUE, "Unknown queue", "MSG=requested queue not found")


def infeasible() -> PbsError:
    return PbsError(
        EXCEEDS_LIMITS,
        "Job exceeds queue resource limits",
        "MSG=cannot locate feasible nodes (nodes file is empty, all systems are busy, "
        "or no nodes have the requested feature)",
    )


def not_rerunnable(job_id: str) -> PbsError:
    return PbsError(NOT_RERUNNABLE, "job is not rerunnable", f"MSG=job {job_id} not rerunnable {job_id}")


UNKNOWN_NODE = "Unknown node "
NO_PERMISSION = "Unauthorized Request  MSG=error in permissions (PERM_OPorMGR)"


def not_in_workload(detail: str) -> PbsError:
    """Ours: a server that hosts a mechanism takes only the jobs that the mechanism knows of."""
    return PbsError(UNAUTHORIZED, "Unauthorized Request ", f"MSG={detail}")
