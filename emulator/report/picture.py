"""`python -m emulator.report.picture DIR FILE.svg`: who has the nodes, as a picture of its own for a README."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from emulator.metrics.timeline import timeline
from emulator.record.run_record import NodePool
from emulator.report import files, plots

_WORDS = {
    NodePool.OA_BUSY: "batch jobs",
    NodePool.OA_IDLE: "batch, idle",
    NodePool.OD_ALLOC: "on-demand leases",
    NodePool.OD_RESERVE: "on-demand reserve",
}
_LEGEND_HEIGHT = 26
_ARGUMENTS = 3


def picture(folder: Path) -> str:
    """The plot of node states of a results folder as an SVG document with a legend and a white ground."""
    record = files.load(folder)
    axis = plots.TimeAxis(record.begin_us, record.horizon_us)
    svg = plots.node_states(record, timeline(record), axis).wide
    template = Path(__file__).with_name("style.html.j2").read_text(encoding="utf-8")
    colours: dict[str, str] = {}
    for name, colour in re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", template):
        colours.setdefault(name, colour)  # the first ones are the page's light colours
    svg = re.sub(r"var\(--([a-z-]+)\)", lambda found: colours[found[1]], svg)
    found = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    if found is None:
        raise ValueError("the plot has no viewBox")
    width, height = float(found[1]), float(found[2]) + _LEGEND_HEIGHT
    legend = []
    for place, (pool, words) in enumerate(_WORDS.items()):
        x = 50 + place * 170
        colour = colours[pool.value.lower().replace("_", "-")]
        legend.append(
            f'<rect x="{x}" y="6" width="13" height="13" rx="2" fill="{colour}"/>'
            f'<text x="{x + 19}" y="17" font-size="13" font-family="sans-serif" fill="{colours["ink"]}">{words}</text>'
        )
    inner = svg[svg.index(">", svg.index("<svg")) + 1 : svg.rindex("</svg>")]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'viewBox="0 0 {width:g} {height:g}" role="img" aria-label="Nodes by owner over one day">\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n{"".join(legend)}\n'
        f'<g transform="translate(0 {_LEGEND_HEIGHT})" font-family="sans-serif">{inner}</g>\n</svg>\n'
    )


def main() -> int:
    if len(sys.argv) != _ARGUMENTS:
        sys.stderr.write("usage: python -m emulator.report.picture DIR FILE.svg\n")
        return 2
    try:
        Path(sys.argv[2]).write_text(picture(Path(sys.argv[1])), encoding="utf-8")
    except (files.ResultsError, OSError) as error:
        sys.stderr.write(f"picture: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
