"""AccaSim's own EASY on a log, in the environment that `peers.py` makes: run_accasim.py LOG.swf NODES FOLDER.

The log has whole processors as nodes. Prints JSON: starts by job number, processor seconds, peak memory.
"""

from __future__ import annotations

import calendar
import collections
import collections.abc
import json
import re
import sys
import time
from pathlib import Path

collections.Mapping = collections.abc.Mapping  # type: ignore[attr-defined]  # AccaSim 1.1.3 is older than Python 3.10
from accasim.base.allocator_class import FirstFit  # type: ignore[import-not-found]  # noqa: E402
from accasim.base.scheduler_class import EASYBackfilling  # type: ignore[import-not-found]  # noqa: E402
from accasim.base.simulator_class import Simulator  # type: ignore[import-not-found]  # noqa: E402

_LINE = re.compile(r"(\d+);.*__(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d);")


def main() -> None:
    log, nodes, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    system = folder / "system.json"
    system.write_text(
        json.dumps(
            {
                "groups": {"node": {"core": 1}},
                "resources": {"node": nodes},
                "equivalence": {"processor": {"core": 1}},
                "start_time": 0,
            }
        )
    )
    begin_s = time.process_time()
    simulator = Simulator(
        log,
        str(system),
        EASYBackfilling(FirstFit()),
        show_statistics=False,
        LOG_LEVEL="WARNING",
        RESULTS_FOLDER_PATH=str(folder),
    )
    written = simulator.start_simulation()
    cpu_s = time.process_time() - begin_s
    starts = {}
    for line in Path(written["sched-"]).read_text().splitlines():
        found = _LINE.match(line)
        assert found is not None, line
        starts[found[1]] = calendar.timegm(time.strptime(found[2], "%Y-%m-%d %H:%M:%S"))
    peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    peak_mib = int(peak[1]) / 1024 if peak else 0
    print(json.dumps({"starts": starts, "cpu_s": cpu_s, "peak_mib": peak_mib}))


main()
