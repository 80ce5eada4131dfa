"""The program of an engine: one that cannot be started, goes away, is replaced, or is started twice."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.clis import command, engaged, login, notes, start, warned
from tests.faults.rows import INTERACTIVE
from tests.harness import Json, opened, wait_for_file
from turnkeeper.core import lifecycle
from turnkeeper.runtime.clock import utc_now
from turnkeeper.store.base import Stale


def program(path: Path, engine: str) -> Path:
    """A CLI in a file of its own."""
    words = command(engine)
    path.write_text(
        f"#!{sys.executable} -IS\nimport os, sys\nos.execv({words[0]!r}, {words!r} + sys.argv[1:])\n"
    )
    path.chmod(0o755)
    return path


def configured(path: Path, engine: str = "codex") -> Json:
    home = path.parent / "logins"
    return {"engines": {engine: {"command": [str(path)], "env": [login(engine)], "login_home": home}}}


def no_program(path: Path) -> Path:
    return path


def not_executable(path: Path) -> Path:
    path.write_text("#!/bin/sh\n")
    return path


def other_machine(path: Path) -> Path:
    path.write_bytes(
        b"\x7fELF\x02\x01\x01"
        + bytes(9)
        + (2).to_bytes(2, "little")
        + (243).to_bytes(2, "little")
        + bytes(200)
    )
    path.chmod(0o755)
    return path


def no_interpreter(path: Path) -> Path:
    path.write_text("#!/nowhere/node\n")
    path.chmod(0o755)
    return path


def shim(path: Path) -> Path:
    path = path.with_suffix(".cmd")
    path.write_text(f"@echo off\ntouch {path.parent / 'a_shell_was_here'}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(made, marks=pytest.mark.failure("S02" if made is shim else "S01"))
        for made in (no_program, not_executable, other_machine, no_interpreter, shim)
    ],
    ids=lambda made: made.__name__,
)
async def test_a_program_that_cannot_be_started_is_refused(
    tmp_path: Path, made: Callable[[Path], Path]
) -> None:
    path = made(tmp_path / "codex")
    async with opened(tmp_path / "data", **configured(path)) as place:
        refused = await place.client.post_job(engine="codex", input={"task": "[[done]]"})
        assert (refused.status_code, refused.json()["code"]) == (409, "ENGINE_NOT_READY")
        assert "engines.codex.command" in refused.json()["fix"]
    assert not (tmp_path / "a_shell_was_here").exists()


@pytest.mark.failure("S01")
async def test_a_program_that_went_away_while_its_run_was_queued(tmp_path: Path) -> None:
    path = program(tmp_path / "codex", "codex")
    async with opened(tmp_path / "data", slots=1, **configured(path)) as place:
        first = await start(place, "codex", "[[wait]] [[done]]", **INTERACTIVE)
        await notes(place, first).reached()
        second = await start(place, "codex", "[[done]]", **INTERACTIVE)
        path.unlink()
        notes(place, first).go_on()
        run = await place.client.settled(second)
        assert (run["status"], run["error"]["code"]) == ("failed", "ENGINE_NOT_READY")
        assert "engines.codex.command" in run["error"]["message"]
        third = await place.client.create(script="done")  # the slot is free
        assert (await place.client.settled(third))["status"] == "succeeded"


@pytest.mark.failure("S12")
async def test_a_program_that_is_replaced_during_the_turn(tmp_path: Path) -> None:
    path = program(tmp_path / "codex", "codex")
    async with engaged(tmp_path / "data", **configured(path)) as place:
        run_id = await start(place, "codex", "[[wait]] [[done]]", **INTERACTIVE)
        await notes(place, run_id).reached()
        newer = program(tmp_path / "newer", "codex")
        newer.write_text(newer.read_text() + "# a newer one\n")
        newer.replace(path)
        notes(place, run_id).go_on()
        run = await place.client.settled(run_id)
        assert (run["status"], warned(run)) == ("succeeded", ["ENGINE_REPLACED"])
        assert str(path) in run["warnings"][0]["message"]

        (attempt,) = (await place.client.http.get(f"/v1/jobs/{run_id}/attempts")).json()["attempts"]
        noted = attempt["launch"]["program"][str(path)]
        assert len(noted) == 64
        again = await start(place, "codex", "[[done]]", **INTERACTIVE)
        assert (await place.client.settled(again))["warnings"] == []
        (attempt,) = (await place.client.http.get(f"/v1/jobs/{again}/attempts")).json()["attempts"]
        assert attempt["launch"]["program"][str(path)] not in ("", noted)


@pytest.mark.failure("S03")
async def test_a_prompt_of_five_megabytes_arrives_whole(tmp_path: Path) -> None:
    """Twice what a request may hold: the skill's own words name the input two times."""
    skill = tmp_path / "skills" / "twice"
    (skill / "assets").mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: twice\ndescription: A skill of a test.\n---\nAnswer.\n")
    prompts = (
        '{"id": "twice", "version": "1.0.0", "entrypoint": {"prompts": {"codex": "{{input}}\\n{{input}}"}}}'
    )
    (skill / "assets" / "runner.json").write_text(prompts)
    words = "lorem ipsum " * 220_000
    more = configured(program(tmp_path / "codex", "codex"))
    async with engaged(tmp_path / "data", skills_dir=(skill.parent,), **more) as place:
        run_id = await start(place, "codex", f"[[done]] {words}", skill="twice")
        run = await place.client.settled(run_id)
        assert run["status"] == "succeeded", run["error"]
        (call,) = notes(place, run_id).calls
        assert call["prompt"].count(words) == 2
        assert len(call["prompt"]) > 5 * 1024 * 1024


@pytest.mark.failure("S04")
@pytest.mark.parametrize("passes", [True, False], ids=["for a moment", "for good"])
async def test_a_program_that_is_being_written_is_tried_again(tmp_path: Path, passes: bool) -> None:
    """As with no process, descriptor or memory left: a few times, then the run fails and the service goes on."""
    path = program(tmp_path / "codex", "codex")
    async with opened(tmp_path / "data", **configured(path)) as place:
        assert (await place.client.settled(await start(place, "codex", "[[done]]")))["status"] == "succeeded"
        with path.open("r+b") as writer:
            run_id = await start(place, "codex", "[[done]]")
            raw = place.settings.data_dir / "runs" / run_id / "raw" / "1.1.stdout"
            await wait_for_file(raw)  # it is tried
            if passes:
                writer.close()
            run = await place.client.settled(run_id)
        if passes:
            assert (run["status"], run["error"]) == ("succeeded", None)
        else:
            assert (run["status"], run["error"]["code"]) == ("failed", "ENGINE_NOT_READY")
            assert "replaced by another process" in run["error"]["message"]
        assert (await place.client.settled(await place.client.create(script="done")))["status"] == "succeeded"


@pytest.mark.failure("S05")
async def test_a_folder_that_vanished_fails_one_run_and_frees_its_slot(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", slots=1) as place:
        first = await place.client.create(
            script={"turns": [[{"wait_for": str(tmp_path / "go")}, {"result": {"answer": "42"}}]]}
        )
        second = await place.client.create(script="done")
        folder = tmp_path / "data" / "runs" / second
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "workspace").symlink_to(tmp_path / "nowhere")
        (tmp_path / "go").touch()
        assert (await place.client.settled(first))["status"] == "succeeded"
        run = await place.client.settled(second)
        assert (run["status"], run["error"]["code"]) == ("failed", "STORAGE_UNAVAILABLE")
        third = await place.client.create(script="done")
        assert (await place.client.settled(third))["status"] == "succeeded"


@pytest.mark.failure("S11")
async def test_a_turn_is_claimed_once_and_has_one_process(tmp_path: Path) -> None:
    """Whoever would start it as well, and had looked before it was claimed, finds it taken."""
    waits = [{"record": "calls"}, {"touch": "begun"}, {"wait_for": "go"}, {"result": {"answer": "42"}}]
    async with opened(tmp_path / "data", slots=1) as place:
        first, second = [await place.client.create(script={"turns": [waits]}) for _ in range(2)]
        spaces = [tmp_path / "data" / "runs" / run_id / "workspace" for run_id in (first, second)]
        await wait_for_file(spaces[0] / "begun")
        queued = await place.house.store.run(second)
        assert queued is not None
        (spaces[0] / "go").touch()
        await wait_for_file(spaces[1] / "begun")
        with pytest.raises(Stale):
            await place.house.store.commit(lifecycle.start_turn(queued, "the-lease-of-another", utc_now()))
        assert len(place.processes(second)) == 1
        (spaces[1] / "go").touch()
        assert (await place.client.settled(second))["status"] == "succeeded"
        assert [len((space / "calls").read_text().splitlines()) for space in spaces] == [1, 1]
