"""What a person does with the service, while one call of it fails: each step is done again until it is taken."""

from __future__ import annotations

import asyncio
import re
import uuid
import zipfile
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tests.faults.failing import Trip
from tests.harness import Json, Place
from tests.skills.archives import zipped
from tests.spec.scripts import ANSWER, ASK, script
from tests.web.patience import eventually
from turnkeeper.client import ApiError, AsyncClient, ClientError, Event, RunInfo, ServiceUnreachable
from turnkeeper.client.aio import AsyncRun
from turnkeeper.core.fcmp import TERMINAL

T = TypeVar("T")

TALK = script([{"think": "Hm."}, ASK], [ANSWER])
WORK = script([{"write_file": {"path": "report.md", "text": "# Bees\n"}}, {"result": {"answer": "written"}}])
READ = script([{"read_file": "uploads/document.txt"}, {"result": {"answer": "read"}}])
PAPER = b"All about bees.\n" * 500
PASSING = frozenset({"STORAGE_UNAVAILABLE"})
"""The one refusal that a call may meet because of what failed below it."""
TYPED = frozenset({"STORAGE_UNAVAILABLE", "ENGINE_NOT_READY"})
"""And how a run may fail of it."""


@dataclass(frozen=True, slots=True)
class Lane:
    """A service of which one call may fail at a time."""

    place: Place
    client: AsyncClient
    trip: Trip
    folder: Path
    """Of the person: outside of the service's data."""

    async def insist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Refused with a code, or done; and if refused, then done when it is sent again."""
        try:
            return await call()
        except ApiError as error:
            refusal: ClientError = error
            is_unreadable = error.code == "SKILL_BROKEN" and "Input/output error" in str(error)
            is_typed = is_unreadable or error.code in PASSING
        except ServiceUnreachable as error:  # of what must not be sent twice without a look
            refusal, is_typed = error, True
        assert is_typed, f"{self.trip.tripped}: {refusal!r}"
        assert self.trip.tripped, refusal
        return await call()

    async def start(self, skill: str, played: Json, **more: object) -> AsyncRun:
        key = uuid.uuid4().hex
        parameter = {"demo_script": played}
        return await self.insist(
            lambda: self.client.run(skill, "demo", parameter=parameter, idempotency_key=key, **more)  # type: ignore[arg-type]
        )

    async def settled(self, run: AsyncRun) -> RunInfo:
        return await self.insist(lambda: run.info(wait=60))

    async def judge(self, run: AsyncRun, answer: str) -> RunInfo:
        """It has ended: with its result, or with a failure that says what went wrong."""
        info = await self.settled(run)
        if info.status == "succeeded":
            assert await self.insist(lambda: run.result()) == {"answer": answer}, self.trip.tripped
        else:
            assert (info.status, bool(self.trip.tripped)) == ("failed", True), info
            assert info.error is not None
            assert info.error.code in TYPED, f"{self.trip.tripped}: {info.error}"
        return info

    async def at_rest(self) -> None:
        """Every slot is free, and no process is left."""
        await eventually(lambda: not self.place.house.dispatcher.busy)
        assert not self.place.processes(), self.trip.tripped


Scenario = Callable[[Lane], Awaitable[None]]


async def talk(lane: Lane) -> None:
    """Two turns, each in a process of its own, heard to the last word."""
    await _converse(lane, "resumable")


async def stay(lane: Lane) -> None:
    """Two turns in one process, which waits for the reply with its slot."""
    await _converse(lane, "sticky_process")


async def _converse(lane: Lane, profile: str) -> None:
    run = await lane.start("answer", TALK, interactive=True, interactive_profile=profile)
    hearing = asyncio.create_task(_heard(run))
    info = await lane.settled(run)
    if info.status == "waiting_user":
        await lane.insist(lambda: run.reply("blue", interaction_id=1))
        info = await lane.judge(run, "blue")
        history = await lane.insist(run.history)
        assert [each.response for each in history] == ["blue"], "a reply that was taken is kept"
    else:
        await lane.judge(run, "blue")
    heard = await hearing
    assert [event.seq for event in heard] == list(range(1, info.last_seq + 1))
    assert [event.seq for event in heard if event.type in TERMINAL] == [info.last_seq]


async def _heard(run: AsyncRun) -> list[Event]:
    return [event async for event in run.events()]


async def upload(lane: Lane) -> None:
    paper = lane.folder / "document.txt"
    paper.write_bytes(PAPER)
    run = await lane.start("filed", READ, input={"title": "Bees"}, files={"document": paper})
    info = await lane.judge(run, "read")
    lane.trip.disarm()
    stored = lane.place.house.stage.folder(run.id).uploads / "document.txt"
    assert stored.read_bytes() == PAPER, "an upload that was taken is whole"
    assert info.files == {"document": "uploads/document.txt"}


async def install(lane: Lane) -> None:
    """Over what the last call installed: the new version is there whole, or the old one is."""
    new = uuid.uuid4().hex
    archive = lane.folder / "fresh.zip"
    archive.write_bytes(zipped({"fresh/SKILL.md": _text(new), "fresh/notes.txt": new}))
    there = lane.place.settings.managed_skills / "fresh"
    with lane.trip.looked_at():
        before = _parts(there)

    async def installed() -> None:
        try:
            await lane.client.install_skill(archive, replace=True)
        except ApiError:
            with lane.trip.looked_at():
                assert _parts(there) in (before, {new}), f"{lane.trip.tripped}: half a skill"
            raise

    await lane.insist(installed)
    with lane.trip.looked_at():
        assert _parts(there) == {new}
    skill = await lane.insist(lambda: lane.client.skill("fresh"))
    assert skill.description == new
    listed = await lane.insist(lane.client.skills)
    problems = [each.problems for each in listed if each.id == "fresh"]
    assert problems == [()] or "Input/output error" in str(problems), lane.trip.tripped


def _text(version: str) -> str:
    return f"---\nname: fresh\ndescription: {version}\n---\nDo it.\n"


def _parts(skill: Path) -> set[str]:
    """The versions that its files are of: one, if it is whole."""
    if not skill.exists():
        return set()
    return {re.findall("[0-9a-f]{32}", (skill / name).read_text())[0] for name in ("SKILL.md", "notes.txt")}


async def fetch(lane: Lane) -> None:
    """An artifact and the bundle of a run that has ended."""
    run = await lane.start("papers", WORK)
    info = await lane.judge(run, "written")
    if info.status == "failed":
        return
    artifacts = await lane.insist(run.artifacts)
    assert [each.path for each in artifacts] == ["report.md"], lane.trip.tripped
    file = await lane.insist(lambda: run.download("report.md", lane.folder / f"{run.id}.md"))
    assert file.read_text() == "# Bees\n"
    bundle = await lane.insist(lambda: run.bundle(lane.folder / f"{run.id}.zip"))
    with zipfile.ZipFile(bundle) as archive:
        assert archive.testzip() is None
        assert archive.read("artifacts/report.md") == b"# Bees\n", lane.trip.tripped


async def cancel(lane: Lane) -> None:
    """In the middle of a turn."""
    run = await lane.start("answer", script([{"think": "Hm."}, {"wait_for": "never"}]))
    async with aclosing(run.events()) as events:
        async for event in events:
            if event.type in ("assistant.reasoning", *TERMINAL):
                break
    await lane.insist(run.cancel)
    info = await lane.settled(run)
    if info.status == "failed":
        await lane.judge(run, "")
    else:
        assert info.status == "canceled"


async def go_on(lane: Lane, waiting: str | None) -> str | None:
    """After a restart: the question that was open is answered, and another one is left open."""
    if waiting is not None:
        run = lane.client.job(waiting)
        assert (await lane.settled(run)).status == "waiting_user", lane.trip.tripped
        await lane.insist(lambda: run.reply("blue", interaction_id=1))
        await lane.judge(run, "blue")
    run = await lane.start("answer", TALK, interactive=True)
    info = await lane.settled(run)
    if info.status == "waiting_user":
        return run.id
    await lane.judge(run, "")
    return None
