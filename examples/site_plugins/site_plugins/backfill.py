"""A backfill rule: whether a job behind the head may start now. The head's reservation is kept in any case."""

HOUR_US = 3_600_000_000


def short_first(job, reservation):
    """Only jobs of an hour at most, and only those that end before the head needs their nodes."""
    return job.estimate_us <= HOUR_US and reservation.now_us + job.estimate_us <= reservation.shadow_us
