"""How quickly a report opens and moves in Chromium.

    python benchmarks/report_page.py                                  # a year of KTH
    python benchmarks/report_page.py --report runs/default/report.html

Prints milliseconds until the page is loaded, and frames a second while the whole page scrolls by and while its Gantt
chart is drawn anew at each frame (all of it, and moved along at a tenth of the time). An empty page in the same browser
says what the machine can do.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parents[1]
sys.path.insert(0, str(HERE / "tests"))

import emulator  # noqa: E402
from chromium_kit import browser  # noqa: E402

_LOADED = "performance.getEntriesByType('navigation')[0].loadEventEnd"
_FRAMES = """new Promise((done) => {
  const begin = performance.now(), chart = document.querySelector('.gantt canvas'), DEED;
  let frames = 0, longest = 0, last = begin;
  const step = (now) => {
    longest = Math.max(longest, now - last); last = now;
    if (now - begin > 3000) return done(JSON.stringify([frames / (now - begin) * 1000, longest]));
    frames++; action((now - begin) / 3000); requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})"""
_ACTIONS = {
    "scrolled": "action = (share) => scrollTo(0, share * (document.documentElement.scrollHeight - innerHeight))",
    "chart, all of it": "action = () => chart.gantt.draw()",
    "chart, moved along": """span = chart.gantt.view.t1, action = (share) => {
      const view = chart.gantt.view;
      view.t0 = share * 0.9 * span; view.t1 = view.t0 + 0.1 * span;
      chart.gantt.draw();
    }""",
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--report", type=Path, help="report.html of a run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        report = options.report
        if report is None:
            log = HERE / "traces" / "KTH-SP2-1996-2.swf.xz"
            emulator.run(log, nodes=100, overrun="kill", out=folder / "kth")
            report = folder / "kth" / "report.html"
        (folder / "empty.html").write_text("<!doctype html><p style='height: 4000px'>")
        with browser(folder) as page:
            page.resize(1280, 900)
            for what, file in (("an empty page", folder / "empty.html"), ("the report", report.resolve())):
                page.open(file.as_uri())
                page.wait_for(f"document.readyState === 'complete' && {_LOADED} > 0")
                row = {"page": what, "bytes": file.stat().st_size, "loaded_ms": round(page.evaluate(_LOADED))}
                for action, script in _ACTIONS.items():
                    if action != "scrolled" and what != "the report":
                        continue
                    per_s, longest_ms = json.loads(page.evaluate(_FRAMES.replace("DEED", script)))
                    row[f"{action}, frames_per_s"], row[f"{action}, longest_ms"] = (
                        round(per_s, 1),
                        round(longest_ms),
                    )
                print(json.dumps(row))


if __name__ == "__main__":
    main()
