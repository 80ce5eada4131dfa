"""What `turnkeeper doctor` looks at: the data directory, the service and its slots, the engines. It changes nothing.

A service is asked only while somebody holds the data directory: the token must not go to whoever has taken the port of
one that was killed. What is found is told in sentences; how they reach a terminal, `cli/doctor.py` knows.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from turnkeeper import __version__, beacon, wiring
from turnkeeper.beacon import Beacon
from turnkeeper.cli.terminal import counted
from turnkeeper.client import ApiError, Client, ClientError, ServiceUnreachable, Status
from turnkeeper.core.errors import TurnkeeperError
from turnkeeper.core.run import SandboxKind, SandboxMode
from turnkeeper.engines.base import Engine
from turnkeeper.engines.sandbox import PACKAGE
from turnkeeper.runtime.disk import Disk
from turnkeeper.runtime.doctor import Check, Outcome
from turnkeeper.settings import Settings, default_data_dir
from turnkeeper.web import views

ANSWER_SEC, ENGINES_SEC = 5, 20
"""How long the service may take to answer, and for its engines: it may have to ask them for their versions first."""
SCARCE, GONE = 1_000_000_000, 100_000_000
"""Free bytes below which there is a warning, and below which neither database nor workspaces can grow for long,
whatever the setting says about new work."""
MAKE_ROOM = "make room (turnkeeper prune deletes old runs), or name a --data-dir on another disk"
UNWALL = "set sandbox.mode (or TURNKEEPER_SANDBOX__MODE) to auto or required"
GIVE_TOKEN = "set TURNKEEPER_TOKEN to the one that it was started with"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    checks: list[Check]
    beacon: Beacon | None
    """Of a service that runs."""
    status: Status | None
    """None: there is none, or it does not answer."""
    engines: list[dict[str, Any]]
    """As the service sees them, else as they are seen from here."""

    @property
    def is_good(self) -> bool:
        return all(check.outcome is not Outcome.FAIL for check in self.checks)


@dataclass(frozen=True, slots=True)
class Told:
    """What the service itself says."""

    status: Status
    engines: list[dict[str, Any]]


class NotTold(Exception):
    """Why it does not say it, and what to do."""

    def __init__(self, words: str, fix: str) -> None:
        super().__init__(words)
        self.fix = fix


def look(settings: Settings) -> Checkup:
    # A wrong setting is said at once, and not taken for a fault of the data.
    known = wiring.known_engines(settings)
    found = beacon.sight(settings.data_dir)
    service, told = _service(settings, found)
    return Checkup(
        checks=[
            _folder(settings.data_dir),
            _database(settings),
            _disk(settings),
            _sandbox(settings, told),
            *service,
        ],
        beacon=found.beacon if found.owner else None,
        status=told.status if told else None,
        engines=told.engines if told else [_engine(each) for each in known.values()],
    )


# The data directory


def _folder(data_dir: Path) -> Check:
    there = _nearest(data_dir)
    if not os.path.isdir(there):  # noqa: PTH112 (never raises)
        return Check("folder", Outcome.FAIL, f"{there} is not a folder", "name another --data-dir")
    if not os.access(there, os.R_OK | os.W_OK | os.X_OK):
        fix = "name another --data-dir, or become the user whose it is"
        return Check("folder", Outcome.FAIL, f"{there} is not writable", fix)
    if there != data_dir:
        return Check("folder", Outcome.OK, f"there is no {data_dir} yet; the first start makes it")
    return Check("folder", Outcome.OK, f"{data_dir}, writable")


def _nearest(path: Path) -> Path:
    return next(each for each in (path, *path.parents) if os.path.lexists(each))


def _database(settings: Settings) -> Check:
    if not os.path.lexists(settings.data_dir / wiring.DATABASE):
        return Check("database", Outcome.OK, "there is none yet; the first start makes it")
    try:
        runs = asyncio.run(_count_runs(settings))
    except TurnkeeperError as error:
        return Check("database", Outcome.FAIL, error.message)
    return Check("database", Outcome.OK, f"readable, of this version, with {counted(runs, 'run')}")


async def _count_runs(settings: Settings) -> int:
    async with wiring.archive(settings) as archive:
        return sum((await archive.store.counts()).values())


def _disk(settings: Settings) -> Check:
    disk = Disk(_nearest(settings.data_dir), settings.min_free_mb)
    try:
        space = disk.space()
    except TurnkeeperError as error:
        return Check("disk", Outcome.FAIL, error.message)
    free = f"{space.free / 1e9:.1f} GB free"
    if short := disk.shortage(space):
        words = f"{free}, and no new work is taken: {short} (TURNKEEPER_MIN_FREE_MB={disk.min_free_mb})"
        return Check("disk", Outcome.FAIL, words, MAKE_ROOM)
    outcome = Outcome.FAIL if space.free < GONE else Outcome.WARN if space.free < SCARCE else Outcome.OK
    return Check("disk", outcome, free, None if outcome is Outcome.OK else MAKE_ROOM)


# What agents are kept in


def _sandbox(settings: Settings, told: Told | None) -> Check:
    """As the service has found it; without one it is tried, in a folder that is gone afterwards."""
    if told is not None and told.status.sandbox is not None:
        known = told.status.sandbox
        return _walls(known.mode, known.effective, known.reason)
    with tempfile.TemporaryDirectory(prefix="turnkeeper-", ignore_cleanup_errors=True) as root:
        try:
            found = wiring.known_sandbox(settings, Path(root))
        except TurnkeeperError as error:
            return Check("sandbox", Outcome.FAIL, error.message)
    return _walls(found.mode.value, found.kind.value, found.reason)


def _walls(mode: str, effective: str, reason: str | None) -> Check:
    if effective != SandboxKind.OFF:
        return Check("sandbox", Outcome.OK, f"{effective} (sandbox.mode is {mode})")
    fix = UNWALL if mode == SandboxMode.OFF else PACKAGE
    return Check("sandbox", Outcome.WARN, f"agents have none: {reason}", fix)


# The service


def _service(settings: Settings, found: beacon.Sighting) -> tuple[list[Check], Told | None]:
    if found.owner is None:
        return [_not_running(settings, found.beacon)], None
    if found.is_elsewhere:
        words = f"{found.owner} has the data directory"
        return [
            Check("service", Outcome.WARN, words, f"ask there: turnkeeper doctor on {found.owner.host}")
        ], None
    if found.beacon is None:
        words = f"{found.owner} has the data directory and does not answer: it is starting or stopping"
        return [Check("service", Outcome.WARN, words, "look again in a moment; its log tells more")], None
    try:
        told = _ask(settings, found.beacon)
    except NotTold as error:
        return [Check("service", Outcome.FAIL, f"{_place(found.beacon)}: {error}", error.fix)], None
    return [_running(found.beacon, told.status), _slots(told.status), _queue(told.status)], told


def _not_running(settings: Settings, left: Beacon | None) -> Check:
    words = "it does not run"
    if left is not None:
        words += f"; the last one, pid {left.pid}, was killed, and the next start takes up its runs"
    start = ["turnkeeper", "serve"]
    if settings.data_dir != default_data_dir():
        start += ["--data-dir", str(settings.data_dir)]
    return Check("service", Outcome.WARN, words, shlex.join(start))


def _running(beacon: Beacon, status: Status) -> Check:
    words = f"{_place(beacon)}, version {status.version}, up since {moment(status.started_at)}"
    if status.status != "ready":
        return Check("service", Outcome.WARN, f"{words}; it is {status.status}")
    if status.version != __version__:
        fix = f"stop it and start it again: installed is {__version__}"
        return Check("service", Outcome.WARN, words, fix)
    return Check("service", Outcome.OK, words)


def _place(beacon: Beacon) -> str:
    return f"{beacon.url}, pid {beacon.pid}"


def _ask(settings: Settings, beacon: Beacon) -> Told:
    """In the words of the client; what to do about it is more than that knows."""
    try:
        quick, patient = (
            Client(data_dir=settings.data_dir, timeout=seconds) for seconds in (ANSWER_SEC, ENGINES_SEC)
        )
    except ClientError as error:  # there is no token, or none that could be one
        raise NotTold(str(error), GIVE_TOKEN) from None
    restart = f"look into its log, or end process {beacon.pid} and start it again"
    with quick, patient:
        try:
            return Told(quick.status(), _engines(patient))
        except ClientError as error:
            is_token = isinstance(error, ApiError) and error.code == "UNAUTHORIZED"
            raise NotTold(str(error), GIVE_TOKEN if is_token else restart) from None


def _engines(client: Client) -> list[dict[str, Any]]:
    try:
        return [each.to_dict() for each in client.engines()]
    except ServiceUnreachable:
        return []  # one of them does not answer: the service itself does


# Its slots


def _slots(status: Status) -> Check:
    slots = status.slots
    busy = f"{slots.busy} of {slots.total} busy (sticky: {slots.sticky} of {slots.sticky_total})"
    return Check("slots", Outcome.OK, f"{busy}; {slots.waiting} held by runs that wait for a person")


def held(status: Status) -> Iterator[str]:
    """A line for each run that holds a slot while it waits."""
    for run in status.held:
        until = f", until {moment(run.wait_deadline_at)}" if run.wait_deadline_at else ""
        yield f"{run.run_id}  {run.skill_id} on {run.engine}, since {moment(run.since)}{until}"
    if status.held_count > len(status.held):
        yield f"and {status.held_count - len(status.held)} more"


def _queue(status: Status) -> Check:
    """A line is no trouble. One that stands still because of people who do not answer is."""
    slots, queue = status.slots, status.queue
    is_full, no_sticky = slots.free <= 0, slots.sticky >= slots.sticky_total and queue.sticky > 0
    match (status.held_count > 0 and queue.length > 0, is_full, no_sticky):
        case (True, True, True):
            return _stands(queue.length, "slot", "TURNKEEPER_SLOTS and TURNKEEPER_STICKY_SLOTS")
        case (True, True, False):
            return _stands(queue.length, "slot", "TURNKEEPER_SLOTS")
        case (True, False, True):
            return _stands(queue.sticky, "sticky slot", "TURNKEEPER_STICKY_SLOTS")
        case _:
            return Check("queue", Outcome.OK, f"{counted(queue.length, 'run')} in line")


def _stands(queued: int, slot: str, settings: str) -> Check:
    words = f"{counted(queued, 'run')} in line for a {slot}, and every {slot} is taken"
    return Check("queue", Outcome.WARN, words, f"answer or cancel the runs that wait, or raise {settings}")


def moment(told: datetime) -> str:
    """Without its microseconds."""
    return told.strftime("%Y-%m-%dT%H:%M:%SZ")


# Engines


def _engine(engine: Engine) -> dict[str, Any]:
    return views.engine_view(engine)
