"""docs/benchmarks.md and its plot, written again from what was found. The words around the figures stay."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from bench.figures import Figure
from bench.goals import GOALS
from bench.report import HEAD, Report, cells

DOCS = Path(__file__).parents[1] / "docs"
PAGE, PLOT = DOCS / "benchmarks.md", DOCS / "benchmarks.svg"
_PART = re.compile(r"(?P<open><!-- measured -->\n).*(?P<close><!-- /measured -->)", re.DOTALL)

ROW, BAR, LABELS, WIDTH = 22, 14, 470, 960
FULL = 360
"""Of a bar that uses all that is allowed; one that uses more is cut at `MOST` times that."""
MOST = 1.25


def write(report: Report, page: Path = PAGE, plot: Path = PLOT) -> None:
    text = page.read_text(encoding="utf-8")
    found = _PART.search(text)
    if found is None:
        raise ValueError(f"{page} has no part for what is measured")
    before, behind = text[: found.end("open")], text[found.start("close") :]
    page.write_text(f"{before}\n{_part(report)}\n{behind}", encoding="utf-8")
    plot.write_text(drawn(report.figures), encoding="utf-8")


def _part(report: Report) -> str:
    rows = [HEAD, tuple("---" for _ in HEAD), *map(cells, report.figures)]
    table = "".join("| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |\n" for row in rows)
    goals = "".join(f"- **{goal}**: {sentence}.\n" for goal, sentence in GOALS.items())
    return f"{report.at}; {report.machine}; commit {report.commit}.\n\n{goals}\n{table}"


def drawn(figures: Sequence[Figure]) -> str:
    """A bar for each figure that has a limit: how much of what is allowed it uses."""
    shown = [(figure, figure.share) for figure in figures if figure.share is not None]
    height = ROW * len(shown) + 40
    rows = "".join(_bar(figure, share, 30 + ROW * at) for at, (figure, share) in enumerate(shown))
    allowed = LABELS + FULL
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        f'font-size="12" role="img" aria-label="How much of each goal is used">\n'
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>\n'
        f'{rows}<line x1="{allowed}" y1="20" x2="{allowed}" y2="{height - 6}" stroke="#444" stroke-dasharray="3 3"/>\n'
        f'<text x="{allowed}" y="14" text-anchor="middle" fill="#444">allowed</text>\n</svg>\n'
    )


def _bar(figure: Figure, share: float, top: int) -> str:
    length = max(1.0, FULL * min(share, MOST))
    colour = "#2f7d5b" if figure.passes else "#b3402a"
    label, told = escape(f"{figure.goal}  {figure.what}"), f"{share:.0%}"
    return (
        f'<text x="{LABELS - 8}" y="{top + 11}" text-anchor="end" fill="#222">{label}</text>\n'
        f'<rect x="{LABELS}" y="{top}" width="{length:.0f}" height="{BAR}" rx="2" fill="{colour}"/>\n'
        f'<text x="{LABELS + length + 6:.0f}" y="{top + 11}" fill="#222">{told}</text>\n'
    )
