"""The store of an engine's session is torn, locked, gone or too large: said at once, by its name."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.fakes.broken_stores import BROKEN, Told
from tests.fakes.clis import ENGINES, Notes, each_engine, engaged, notes, start
from tests.fakes.puppets import played, prints, recorded, run, warned
from tests.harness import Json, states
from turnkeeper.engines.lines import plain
from turnkeeper.runtime import stage

INTERACTIVE: Json = {"execution_mode": "interactive"}
LOST = ("failed", "SESSION_LOST")


@pytest.mark.parametrize(
    "told",
    [
        pytest.param(told, marks=pytest.mark.failure(told.row), id=f"{told.row}-{told.engine}-{number}")
        for number, told in enumerate(BROKEN)
    ],
)
async def test_session_that_cannot_be_used_is_lost(tmp_path: Path, told: Told) -> None:
    """By what the CLI said, and not by a limit of time."""
    turns = recorded(told.engine, "ask"), prints(told.stdout, told.stderr, told.code)
    async with played(tmp_path, told.engine, *turns) as place:
        client = place.client
        run_id = await client.create(engine=told.engine, **INTERACTIVE)
        assert (await client.settled(run_id))["status"] == "waiting_user"
        await client.reply(run_id, "blue")
        lost = await client.settled(run_id)
        assert (lost["status"], lost["error"]["code"]) == LOST, lost["error"]
        said = plain(f"{told.stdout}{told.stderr}".replace("\\", "").encode())
        assert lost["error"]["message"] in said
        assert states(await client.events(run_id))[-2:] == ["running", "failed"]


@pytest.mark.failure("R03")
@pytest.mark.parametrize("engine", ["codex", "opencode"])
async def test_error_of_a_first_turn_is_not_about_its_session(tmp_path: Path, engine: str) -> None:
    """There was none before it."""
    words = prints("", "Error: database is locked\nNo tool output found for function call call_1\n", 1)
    async with played(tmp_path, engine, words) as place:
        assert (await run(place, engine))["error"]["code"] == "ENGINE_FAILED"


@each_engine
@pytest.mark.failure("R04", "R10")
async def test_each_run_has_a_store_of_its_own(tmp_path: Path, engine: str) -> None:
    """So nobody else can lock it: runs side by side are started in homes that none of them shares."""
    async with engaged(tmp_path / "data", slots=3) as place:
        runs = [await start(place, engine, "[[ask]] [[then]] [[done]]", **INTERACTIVE) for _ in range(3)]
        await asyncio.gather(*map(place.client.settled, runs))
        await asyncio.gather(*(place.client.reply(run_id, "blue") for run_id in runs))
        ended = await asyncio.gather(*map(place.client.settled, runs))
        assert [each["status"] for each in ended] == ["succeeded"] * 3
        assert len({notes(place, run_id).home for run_id in runs}) == 3
        assert len({session for run_id in runs for session in notes(place, run_id).sessions}) == 3


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.failure("R05")
async def test_resume_that_waits_for_a_person_is_cut_off_and_named(tmp_path: Path, engine: str) -> None:
    """It draws a list of sessions to nobody: on no terminal it prints nothing, and waits for a key."""
    async with played(tmp_path, engine, recorded(engine, "ask"), "sleep()") as place:
        client = place.client
        limits = {"first_byte_sec": 1, "step_sec": 0.5}
        run_id = await client.create(engine=engine, timeouts=limits, **INTERACTIVE)
        assert (await client.settled(run_id))["status"] == "waiting_user"
        session = (await place.house.store.run(run_id)).handle.session_id  # type: ignore[union-attr]
        await client.reply(run_id, "blue")
        stalled = await client.settled(run_id)
        assert (stalled["status"], stalled["error"]["code"]) == ("failed", "ENGINE_STALLED")
        assert "printed nothing of its turn for 1 s" in stalled["error"]["message"]
        assert f"started to resume session {session}, and did not" in stalled["error"]["message"]
        assert place.processes(run_id) == []


@pytest.mark.failure("R05")
async def test_first_turn_that_hangs_had_nothing_to_resume(tmp_path: Path) -> None:
    async with played(tmp_path, "codex", "sleep()") as place:
        stalled = await run(place, "codex", timeouts={"first_byte_sec": 0.4})
        assert stalled["error"]["code"] == "ENGINE_STALLED"
        assert "resume" not in stalled["error"]["message"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.failure("R06")
async def test_resume_that_says_nothing_is_no_success(tmp_path: Path, engine: str) -> None:
    async with played(tmp_path, engine, recorded(engine, "ask"), prints()) as place:
        client = place.client
        run_id = await client.create(engine=engine, **INTERACTIVE)
        assert (await client.settled(run_id))["status"] == "waiting_user"
        await client.reply(run_id, "blue")
        lost = await client.settled(run_id)
        assert (lost["status"], lost["error"]["code"]) == LOST
        assert "said nothing at all" in lost["error"]["message"]


@each_engine
@pytest.mark.failure("R07")
async def test_session_that_its_own_resume_deleted_is_lost(tmp_path: Path, engine: str) -> None:
    """The service stops while the resumed turn is under way, and what is left of the session goes with it."""
    async with engaged(tmp_path / "data") as place:
        run_id = await start(place, engine, "[[ask]]", **INTERACTIVE)
        await place.client.settled(run_id)
        await place.client.reply(run_id, "[[note]] [[wait]] [[done]]")
        await notes(place, run_id).reached()
        scripted = notes(place, run_id).home / ".scripted"
    for kept in scripted.iterdir():
        kept.unlink()
    Notes(tmp_path / "data", run_id).go_on()
    async with engaged(tmp_path / "data") as place:
        lost = await place.client.ended(run_id)
        assert (lost["status"], lost["error"]["code"]) == LOST, lost
        assert lost["recovery"]["trigger"] == "restart.resume_turn"


LARGE, MOST = 1 * stage.MB, 4 * stage.MB
GROWN = """
grown = home / {folder!r}
grown.mkdir(parents=True)
with (grown / "long.jsonl").open("wb") as file:
    file.write(bytes({size}))
    file.truncate({length})
"""


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies on the disk counts: the real ones would cost a gigabyte of it."""
    monkeypatch.setattr(stage, "SESSION_LARGE", LARGE)
    monkeypatch.setattr(stage, "SESSION_MAX", MOST)


async def grown(tmp_path: Path, folder: str, *, size: int, length: int) -> tuple[Json, int]:
    """What becomes of the run with its reply, and how many turns were played."""
    grows = GROWN.format(folder=folder, size=size, length=length) + recorded("codex", "ask")
    async with played(tmp_path, "codex", grows, recorded("codex", "resume")) as place:
        client = place.client
        run_id = await client.create("plain", engine="codex", **INTERACTIVE)
        first = await client.settled(run_id)
        assert first["status"] == "waiting_user", first
        # The recorded answer is an ordinary one: what is looked for is whether it was asked for at all.
        await client.reply(run_id, "blue")
        later = await client.settled(run_id)
        return later, len((tmp_path / "data" / "runs" / run_id / "home" / "played").read_text())


def warned_of_size(run: Json) -> list[str]:
    return [each for each in warned(run) if each.startswith("SESSION")]


@pytest.mark.failure("R08")
@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize(
    ("size", "outcome", "warnings"),
    [
        (1000, ("succeeded", None), []),
        (2 * LARGE, ("succeeded", None), ["SESSION_LARGE"]),
        (MOST + stage.MB, ("failed", "SESSION_TOO_LARGE"), []),
    ],
)
async def test_session_that_grows_is_warned_of_and_then_not_resumed(
    tmp_path: Path, size: int, outcome: tuple[str, str | None], warnings: list[str]
) -> None:
    later, turns = await grown(tmp_path, ".codex/sessions", size=size, length=size)
    status, code = outcome
    assert turns == (1 if code else 2)
    assert (later["error"] and later["error"]["code"]) == code
    assert warned_of_size(later) == warnings
    if code:
        assert later["status"] == status
        assert f"{size // stage.MB} MB;" in later["error"]["message"]


@pytest.mark.failure("R08")
@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize(
    ("folder", "size"),
    [
        (".rustup/toolchains", MOST + stage.MB),  # its home is the home of every tool that the agent runs
        (".codex/sessions", 1000),  # and the rest of the file is a hole
    ],
)
async def test_what_is_no_session_does_not_weigh(tmp_path: Path, folder: str, size: int) -> None:
    later, turns = await grown(tmp_path, folder, size=size, length=MOST + stage.MB)
    assert (turns, warned_of_size(later)) == (2, []), later["error"]


@each_engine
@pytest.mark.failure("R09")
async def test_session_is_resumed_by_one_process_alone(tmp_path: Path, engine: str) -> None:
    """Many reply in the same moment; one is heard, and one process resumes."""
    async with engaged(tmp_path / "data") as place:
        client = place.client
        run_id = await start(place, engine, "[[ask]]", **INTERACTIVE)
        await client.settled(run_id)
        posts = (client.post_reply(run_id, 1, f"{n} [[wait]] [[done]]") for n in range(5))
        codes = [answer.status_code for answer in await asyncio.gather(*posts)]
        assert sorted(codes) == [200, 409, 409, 409, 409]
        await notes(place, run_id).reached()
        (pid,) = {found.pid for found in place.processes(run_id)}
        assert pid == notes(place, run_id).calls[-1]["pid"]
        notes(place, run_id).go_on()
        assert (await client.settled(run_id))["status"] == "succeeded"
        assert len(notes(place, run_id).calls) == 2
    assert not os.path.exists(f"/proc/{pid}/cmdline")  # noqa: PTH110
