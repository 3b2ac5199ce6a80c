"""Processor time of the dashboard's calls with many nodes.

    python benchmarks/dashboard.py --nodes 10000
    python benchmarks/dashboard.py --nodes 10000 --checkout ../old --path /

Asks the real service for each path so often and divides what its process used. `--path` asks for others. A checkout
from before the dashboard had calls of its own answers it whole at `/`: compare that with the sum.
"""

from __future__ import annotations

import argparse
import json
import signal
import tempfile
import urllib.request
from pathlib import Path

from balancer_load import HERE, cpu_s, start_service, wait_for_reserve
from speed_rows import print_rows, row

_PATHS = ("/", "/dashboard/now", "/dashboard/nodes", "/dashboard/pools", "/v1/usage")


def fetch(url: str) -> int:
    accept = {"Accept": "text/html, application/json;q=0.9"}
    with urllib.request.urlopen(urllib.request.Request(url, headers=accept), timeout=60) as answer:  # noqa: S310
        return len(answer.read())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--checkout", type=Path, default=HERE, help="whose service [this one's]")
    parser.add_argument("--path", action="append", help="may be given several times")
    parser.add_argument("--json", action="store_true", help="one list")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        service, url = start_service(Path(name), options.nodes, 32, checkout=options.checkout)
        try:
            wait_for_reserve(url, options.nodes)
            for path in options.path or _PATHS:
                size = fetch(url + path)
                before_s = cpu_s(service.pid)
                for _ in range(options.calls):
                    fetch(url + path)
                used_ms = 1000 * (cpu_s(service.pid) - before_s) / options.calls
                figures = {"bytes": size, "cpu_ms": round(used_ms, 1)}
                rows.append(row(f"{path}, {options.nodes} nodes", figures))
                if not options.json:
                    print(json.dumps({"path": path} | figures), flush=True)
        finally:
            service.send_signal(signal.SIGTERM)
            service.wait(timeout=60)
    if options.json:
        print_rows(rows)


if __name__ == "__main__":
    main()
