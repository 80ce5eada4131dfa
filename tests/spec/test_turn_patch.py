"""What a run adds to its skill, as the engine found it in its home when its turn began."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.clis import each_engine, engaged, notes, start
from tests.harness import SKILLS, Json, Place
from tests.spec.scripts import INTERACTIVE

AUTO: Json = {"execution_mode": "auto"}

RUNTIME = "## How this run works"
FILES = "## Files to leave behind"
HAND_IN = "## How to hand in the result"
SCHEMA = "## What the result must look like"
MODES = {"auto": "## Nobody is there to answer", "interactive": "## A person can answer you"}


@pytest.fixture(scope="module")
async def clis(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    async with engaged(tmp_path_factory.mktemp("clis") / "data") as place:
        yield place


async def skill_text(place: Place, engine: str, skill: str, job: Json) -> str:
    """`SKILL.md` as the engine found it when its turn began: one file, where the prompt says it is."""
    run_id = await start(place, engine, "[[ask]]", skill=skill, **job)
    await place.client.settled(run_id)
    seen = notes(place, run_id)
    ((path, text),) = seen.calls[0]["skills"].items()
    assert str(seen.home / path) in seen.calls[0]["prompt"]
    return str(text)


@pytest.mark.spec("TURN-04")
@each_engine
async def test_interactive_patch_keeps_the_marker_for_the_end(clis: Place, engine: str) -> None:
    text = " ".join((await skill_text(clis, engine, "answer", INTERACTIVE)).split())
    assert "You can ask whenever the work needs it" in text
    assert "Plain words are enough; no special form is needed." in text
    assert "A message that asks something never carries the completion mark." in text
    assert "Write the mark only in the last message, when nothing is left to do or to ask." in text
    assert "Do not write it in any earlier message" in text


ORDER = {
    "papers": [RUNTIME, FILES, HAND_IN, SCHEMA],
    "answer": [RUNTIME, HAND_IN, SCHEMA],
    "plain": [RUNTIME, HAND_IN],
    "sketches": [RUNTIME, FILES, HAND_IN],
}


@pytest.fixture
async def with_sketches(tmp_path: Path) -> AsyncIterator[Place]:
    """A service that also has a skill with artifacts and without an output schema."""
    skill = tmp_path / "skills" / "sketches"
    (skill / "assets").mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: sketches\ndescription: Draws.\n---\n\nDraw.\n")
    runner = {"id": "sketches", "version": "1.0.0", "artifacts": [{"role": "sketch", "pattern": "*.svg"}]}
    (skill / "assets" / "runner.json").write_text(json.dumps(runner))
    async with engaged(tmp_path / "data", skills_dir=(SKILLS, tmp_path / "skills")) as place:
        yield place


@pytest.mark.spec("TURN-19")
@each_engine
@pytest.mark.parametrize("mode", MODES)
async def test_patch_has_its_modules_in_order(with_sketches: Place, engine: str, mode: str) -> None:
    for skill, headings in ORDER.items():
        text = await skill_text(with_sketches, engine, skill, {"execution_mode": mode})
        added = [line for line in text.splitlines() if line.startswith("## ")]
        assert added == [*headings, MODES[mode]], skill


@pytest.mark.spec("TURN-19")
async def test_patch_comes_after_the_skills_own_words(clis: Place) -> None:
    own = (SKILLS / "papers" / "SKILL.md").read_text()
    text = await skill_text(clis, "codex", "papers", AUTO)
    assert text.startswith(own.rstrip())
    assert "`report.md`" in text[text.index(FILES) : text.index(HAND_IN)]
    assert '"__SKILL_DONE__": true' in text[text.index(HAND_IN) : text.index(SCHEMA)]
    schema = json.loads((SKILLS / "papers" / "assets" / "output.schema.json").read_text())
    assert json.dumps(schema, indent=2) in text[text.index(SCHEMA) :]


@pytest.mark.spec("TURN-20")
@each_engine
@pytest.mark.parametrize(("mode", "other"), [("interactive", "auto"), ("auto", "interactive")])
async def test_patch_of_one_mode_excludes_the_other(clis: Place, engine: str, mode: str, other: str) -> None:
    text = await skill_text(clis, engine, "answer", {"execution_mode": mode})
    assert text.count(MODES[mode]) == 1
    assert MODES[other] not in text
    assert ("Do not ask anything" in text) == (mode == "auto")
    assert ("You can ask" in text) == (mode == "interactive")


@pytest.mark.spec("TURN-20")
@each_engine
async def test_later_turns_are_not_patched_again(clis: Place, engine: str) -> None:
    run_id = await start(clis, engine, "[[ask]]", **INTERACTIVE)
    await clis.client.settled(run_id)
    await clis.client.reply(run_id, "[[ask]]")
    await clis.client.settled(run_id)
    first, second = notes(clis, run_id).calls
    assert first["skills"] == second["skills"]
