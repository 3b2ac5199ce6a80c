"""Pictures of their own, for a README or a paper, from what a run or a page shows.

python -m emulator.report.picture DIR FILE.svg              who has the nodes of a run
python -m emulator.report.picture PAGE.html#NAME FILE.svg   a plot of a page, by the id it has there
"""

from __future__ import annotations

import re
import sys
from html import escape
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
    colours = _colours(Path(__file__).with_name("style.html.j2").read_text(encoding="utf-8"))
    legend = []
    for place, (pool, words) in enumerate(_WORDS.items()):
        x = 50 + place * 170
        colour = colours[pool.value.lower().replace("_", "-")]
        legend.append(
            f'<rect x="{x}" y="6" width="13" height="13" rx="2" fill="{colour}"/>'
            f'<text x="{x + 19}" y="17" font-size="13" font-family="sans-serif" fill="{colours["ink"]}">{words}</text>'
        )
    svg = plots.node_states(record, timeline(record), axis).wide
    return _alone(svg, colours, "Nodes by owner over one day", "".join(legend), _LEGEND_HEIGHT)


def picture_of_page(page: Path, name: str) -> str:
    """A plot of a page as an SVG document. Raises ValueError if the page has none of that name."""
    text = page.read_text(encoding="utf-8")
    found = re.search(rf'<div class="wide" id="{re.escape(name)}">(<svg.*?</svg>)', text, re.DOTALL)
    if found is None:
        names = ", ".join(re.findall(r'<div class="wide" id="([\w-]+)"><svg', text)) or "none"
        raise ValueError(f"{page} has no plot {name}; there are: {names}")
    label = re.search(r'aria-label="([^"]*)"', found[1])
    return _alone(found[1], _colours(text), label[1] if label else escape(name))


def _colours(style: str) -> dict[str, str]:
    """The page's light colours by name: the first of each."""
    colours: dict[str, str] = {}
    for name, colour in re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", style):
        colours.setdefault(name, colour)
    return colours


def _alone(svg: str, colours: dict[str, str], label: str, above: str = "", height_above: float = 0) -> str:
    svg = re.sub(r"var\(--([a-z-]+)\)", lambda found: colours[found[1]], svg)
    found = re.search(r'viewBox="0 (-?[\d.]+) ([\d.]+) ([\d.]+)"', svg)
    if found is None:
        raise ValueError("the plot has no viewBox")
    top, width, height = (float(each) for each in found.groups())
    inner = svg[svg.index(">", svg.index("<svg")) + 1 : svg.rindex("</svg>")]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'viewBox="0 0 {width:g} {height + height_above:g}" role="img" aria-label="{label}">\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n{above}\n'
        f'<g transform="translate(0 {height_above - top:g})" font-family="sans-serif">{inner}</g>\n</svg>\n'
    )


def main() -> int:
    if len(sys.argv) != _ARGUMENTS:
        sys.stderr.write("usage: python -m emulator.report.picture DIR|PAGE.html#NAME FILE.svg\n")
        return 2
    source, _, name = sys.argv[1].partition("#")
    try:
        drawn = picture_of_page(Path(source), name) if name else picture(Path(source))
        Path(sys.argv[2]).write_text(drawn, encoding="utf-8")
    except (files.ResultsError, OSError, ValueError) as error:
        sys.stderr.write(f"picture: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
