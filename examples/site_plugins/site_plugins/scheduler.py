"""A whole scheduler: at each pass the jobs that start now."""


def widest_that_fits(now_us, view):
    """The widest job for which there are nodes, again and again. A narrow one may wait for ever."""
    starts, free = [], view.free
    for job in sorted(view.queue, key=lambda job: (-job.nodes, job.number)):
        if job.nodes <= free:
            free -= job.nodes
            starts.append(job)
    return starts
