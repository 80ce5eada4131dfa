"""A second opinion from the stored bytes: it agrees with what was decided, until somebody touches them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Json, Place
from turnkeeper.core.run import Attempt, Run
from turnkeeper.runtime.audit import SecondOpinion, judge_again

INTERACTIVE: Json = {"execution_mode": "interactive"}
STICKY: Json = INTERACTIVE | {"interactive_profile": "sticky_process"}
PROFILES = pytest.mark.parametrize("profile", [INTERACTIVE, STICKY], ids=["resumable", "sticky"])


async def finished(place: Place, script: Any, *replies: str, **options: Any) -> tuple[Run, list[Attempt]]:
    run_id = await place.client.create(script=script, **options)
    for reply in replies:
        await place.client.settled(run_id)
        await place.client.reply(run_id, reply)
    await place.client.ended(run_id)
    run = await place.house.store.run(run_id)
    assert run is not None
    return run, await place.house.store.attempts(run_id)


def again(place: Place, run: Run, attempt: Attempt) -> SecondOpinion:
    opinion = judge_again(place.house.stage, run, attempt, ())
    assert opinion is not None
    return opinion


def raw(place: Place, attempt: Attempt, stream: str = "stdout") -> Path:
    folder = place.house.stage.folder(attempt.run_id)
    return folder.raw(attempt.attempt_number, attempt.try_number, stream)


@contextmanager
def tampered(path: Path, change: Callable[[bytes], bytes]) -> Iterator[None]:
    before = path.read_bytes()
    assert change(before) != before
    path.write_bytes(change(before))
    try:
        yield
    finally:
        path.write_bytes(before)


TAMPERINGS: dict[str, Callable[[bytes], bytes]] = {
    "no closing event": lambda data: b"".join(data.splitlines(keepends=True)[:-1]),
    "no marker": lambda data: data.replace(b"__SKILL_DONE__", b"__SKILL_DOME__"),
    "another type of answer": lambda data: data.replace(rb"\"blue\"", b"7"),
    "nothing at all": lambda data: b"",
    "half of a line": lambda data: data[: data.index(b"SKILL_DONE")],
}


@PROFILES
async def test_it_agrees_with_every_turn(place: Place, profile: Json) -> None:
    run, attempts = await finished(place, "ask", "blue", **profile)
    assert [again(place, run, attempt).agrees for attempt in attempts] == [True, True]
    verdicts = [again(place, run, attempt).again["verdict"] for attempt in attempts]
    assert verdicts == ["waiting_user", "succeeded"]


@PROFILES
@pytest.mark.parametrize("change", TAMPERINGS.values(), ids=TAMPERINGS.keys())
async def test_a_log_that_was_tampered_with_disagrees(
    place: Place, profile: Json, change: Callable[[bytes], bytes]
) -> None:
    run, (asked, answered) = await finished(place, "ask", "blue", **profile)
    with tampered(raw(place, answered), change):
        opinion = again(place, run, answered)
        assert not opinion.agrees
        assert opinion.stored["verdict"] == "succeeded"
        assert opinion.again != opinion.stored
        assert again(place, run, asked).agrees  # the other turn has its own bytes
    assert again(place, run, answered).agrees


async def test_the_last_words_on_stderr_are_part_of_it(place: Place) -> None:
    script = {"turns": [[{"stderr": "no licence found"}, {"exit": 7}]]}
    run, (attempt,) = await finished(place, script)
    assert "no licence found" in again(place, run, attempt).again["error"]["message"]
    with tampered(raw(place, attempt, "stderr"), lambda data: data.replace(b"licence", b"license")):
        assert not again(place, run, attempt).agrees


async def test_a_turn_that_was_never_judged_has_no_second_opinion(place: Place) -> None:
    run_id = await place.client.create(script="hang")
    await place.client.until(run_id, "running")
    run, (attempt,) = await place.house.store.run(run_id), await place.house.store.attempts(run_id)
    assert run is not None
    assert judge_again(place.house.stage, run, attempt, ()) is None
    await place.client.cancel(run_id)
    run, (attempt,) = await finished_run(place, run_id)
    assert again(place, run, attempt).again == {"verdict": "canceled"}


async def finished_run(place: Place, run_id: str) -> tuple[Run, list[Attempt]]:
    await place.client.ended(run_id)
    run = await place.house.store.run(run_id)
    assert run is not None
    return run, await place.house.store.attempts(run_id)
