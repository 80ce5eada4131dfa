"""Tables for people and for pipes: on a terminal they fit its width and have colours, elsewhere they are plain text."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import typer

COLOURS = {"yes": "green", "no": "red", "broken": "red", "error": "red", "warning": "yellow"}
"""Of cells that say nothing but this."""
GAP = 2
LEAST = 12
"""With less room than this a column that may be cut is left out."""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    wraps: bool = False
    """On a narrow terminal it goes on in the next line; others keep their words together."""
    is_cut: bool = False
    """On a narrow terminal it ends early, or is left out."""


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[str]], *, indent: int = 0) -> None:
    """Columns without any name have no line of names above them."""
    rows = list(rows)
    if sys.stdout.isatty():
        _print_rich(columns, rows, indent)
        return
    head = [column.name for column in columns]
    for line in _aligned([*([head] if any(head) else []), *rows]):
        typer.echo(f"{' ' * indent}{line}")


def _aligned(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _print_rich(columns: Sequence[Column], rows: Sequence[Sequence[str]], indent: int) -> None:
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    console = Console()
    has_head = any(column.name for column in columns)
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold", show_header=has_head)
    room = _room(columns, rows, console.width - indent)
    shown = [number for number, column in enumerate(columns) if room >= LEAST or not column.is_cut]
    for number in shown:
        column = columns[number]
        table.add_column(column.name, overflow="fold", no_wrap=not column.wraps)
    for row in rows:
        cells = [Text(row[number], style=COLOURS.get(row[number], "")) for number in shown]
        for cell, number in zip(cells, shown, strict=True):
            if columns[number].is_cut:
                cell.truncate(room, overflow="ellipsis")
        table.add_row(*cells)
    console.print(Padding(table, (0, 0, 0, indent)))


def _room(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> int:
    """What the others leave to the column that is cut; were that left to the table, it would cut all of them."""
    from rich.cells import cell_len

    lines = [[column.name for column in columns], *rows]
    others = [
        max(cell_len(line[number]) for line in lines)
        for number, column in enumerate(columns)
        if not column.is_cut
    ]
    return width - sum(others) - GAP * len(others)
