"""`turnkeeper watch --json`: the events of a run for programs, one a line, for so long as was said."""

from __future__ import annotations

import threading
import time
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

import typer

from turnkeeper.cli.outcome import CODES, json_text, tell_left
from turnkeeper.cli.terminal import TIMEOUT

if TYPE_CHECKING:
    from turnkeeper.client import Event, Run

    Heard = SimpleQueue[Event | Exception | None]


def print_events(run: Run, timeout: float | None) -> int:
    """From the first to the last; the exit code."""
    heard: Heard = SimpleQueue()
    threading.Thread(target=_listen, args=(run, heard), daemon=True).start()
    until = None if timeout is None else time.monotonic() + timeout
    try:
        while (event := heard.get(timeout=until and _left(until))) is not None:
            if isinstance(event, Exception):
                raise event
            typer.echo(json_text(event.to_dict()))
    except Empty:
        tell_left(run, f"{timeout:g} seconds are over.", as_json=False)
        return TIMEOUT
    return CODES[run.info().status]


def _left(until: float) -> float:
    return min(max(0.0, until - time.monotonic()), threading.TIMEOUT_MAX)


def _listen(run: Run, heard: Heard) -> None:
    """In a thread of its own: who reads the log itself cannot look at a clock."""
    try:
        for event in run.events():
            heard.put(event)
        heard.put(None)
    except Exception as error:  # noqa: BLE001 (the main thread raises it)
        heard.put(error)
