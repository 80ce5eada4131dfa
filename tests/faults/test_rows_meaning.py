"""The meaning of events: what counts is who said it and when, and not how often or how well it was dated."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from tests.fakes.clis import start, warned
from tests.faults.rows import (
    AUTO,
    FAILED,
    INTERACTIVE,
    SUCCEEDED,
    WAITING,
    Row,
    each,
    messages,
    play,
    raw_words,
)
from tests.harness import Json, Place
from tests.web.test_service import gauges
from turnkeeper.runtime.clock import utc_now

DONE = '{"__SKILL_DONE__": true, "answer": "42"}'
QUESTION = "Which colour should I use?"
LATER = "I will continue when it is done."
MEANT = {
    "events that nobody knows": Row(
        ids=("M01",),
        script="chaos/unknown_events",
        status=SUCCEEDED,
        raw=("telemetry.sample", '"body": "moved"', '"kind": "message"'),
    ),
    "an error that it got over": Row(
        ids=("M02",), script="chaos/error_midway", status=SUCCEEDED, raw=("the stream was cut off",)
    ),
    "a failure with words": Row(
        ids=("M03",),
        script="chaos/fails_with_words",
        status=FAILED,
        code="ENGINE_FAILED",
        says=("the fourth file is larger than it can read",),
    ),
    "no closing event": Row(
        ids=("M05",),
        script="no_terminal",
        status=FAILED,
        code="ENGINE_FAILED",
        says=("without closing",),
        job=AUTO,
    ),
    "no closing event after a result": Row(
        ids=("M05",), script="no_terminal", status=SUCCEEDED, warned=("ENGINE_FAILED_AFTER_RESULT",)
    ),
    "no closing event and no result": Row(
        ids=("M05",),
        script={"turns": [[{"say": QUESTION}, {"no_terminal": True}]]},
        status=FAILED,
        code="ENGINE_FAILED",
        says=("without closing",),
    ),
    "a turn that is closed twice": Row(ids=("M06",), script="chaos/closed_twice", status=SUCCEEDED),
    "words after the end": Row(
        ids=("M07",), script="chaos/words_after_the_end", status=WAITING, says=(QUESTION,)
    ),
    "events in the output of a tool": Row(
        ids=("M08",), script="chaos/forged_events", status=WAITING, says=(QUESTION,)
    ),
    "nothing about tokens": Row(ids=("M09",), script="chaos/no_usage", status=SUCCEEDED),
    "a session that is named late": Row(
        ids=("M10",), script="chaos/late_session", status=WAITING, says=(QUESTION,)
    ),
    "a session that is named twice": Row(
        ids=("M10",), script="chaos/session_changes", status=WAITING, says=(QUESTION,)
    ),
    "no session": Row(
        ids=("M10",),
        script="chaos/no_session",
        status=FAILED,
        code="SESSION_LOST",
        says=("named no session",),
    ),
    "events that are dated backwards": Row(ids=("M11",), script="chaos/clock_backwards", status=SUCCEEDED),
    "a task that is still running": Row(
        ids=("M13",), script="chaos/background_pending", status=WAITING, says=(LATER,)
    ),
    "a task that is still running, nobody to ask": Row(
        ids=("M13",), script="chaos/background_pending", status=FAILED, code="OUTPUT_INVALID", job=AUTO
    ),
    "a task that is still running, in the last turn": Row(
        ids=("M13",),
        script={"turns": [[{"say": QUESTION}], [{"say": LATER}]]},
        status=WAITING,
        says=(QUESTION,),
        skill="limited",
    ),
}


@each(MEANT)
async def test_what_the_events_mean(place: Place, row: Row) -> None:
    await play(place, row)


@pytest.mark.failure("M06", "M07")
async def test_one_result_is_one_message(place: Place) -> None:
    twice = (await play(place, MEANT["a turn that is closed twice"]))["run_id"]
    assert await messages(place, twice) == [DONE]
    late = (await play(place, MEANT["words after the end"]))["run_id"]
    assert await messages(place, late) == [QUESTION]


@pytest.mark.failure("M07")
async def test_words_after_the_end_are_stored_and_the_run_goes_on(place: Place) -> None:
    run_id = (await play(place, MEANT["words after the end"]))["run_id"]
    stored = await place.client.http.get(f"/v1/jobs/{run_id}/logs/1/1/stdout")
    assert "too late" in stored.text
    await place.client.reply(run_id, "blue")
    assert (await place.client.settled(run_id))["status"] == "succeeded"
    assert await place.client.result(run_id) == {"answer": "blue"}


@pytest.mark.failure("M10")
@pytest.mark.parametrize("name", ["a session that is named late", "a session that is named twice"])
async def test_the_reply_goes_to_the_session_that_asked(place: Place, name: str) -> None:
    run_id = (await play(place, MEANT[name]))["run_id"]
    await place.client.reply(run_id, "blue")
    assert (await place.client.settled(run_id))["status"] == "succeeded"
    assert await place.client.result(run_id) == {"answer": "blue"}


@pytest.mark.failure("M09")
async def test_tokens_that_are_not_told_are_not_made_up(place: Place) -> None:
    silent = await play(place, MEANT["nothing about tokens"])
    assert not any(silent["usage"].values())
    told = {"turns": [[{"usage": {"input_tokens": 7, "output_tokens": 3}}, {"result": {"answer": "42"}}]]}
    run = await play(place, Row(ids=(), script=told, status=SUCCEEDED))
    assert {name: count for name, count in run["usage"].items() if count} == {
        "input_tokens": 7,
        "output_tokens": 3,
    }


@pytest.mark.failure("M11")
async def test_our_own_clock_orders_the_log(place: Place) -> None:
    began = utc_now()
    run_id = (await play(place, MEANT["events that are dated backwards"]))["run_id"]
    events = await place.client.events(run_id)
    thoughts = [event["data"]["text"] for event in events if event["type"] == "assistant.reasoning"]
    assert thoughts == ["one", "two", "three", "four"]
    times = [datetime.fromisoformat(event["ts"]) for event in events]
    assert all(earlier <= later for earlier, later in pairwise(times))
    assert began - timedelta(seconds=1) <= times[0] <= times[-1] <= utc_now()


@pytest.mark.failure("M01", "B10")
async def test_what_nobody_understands_is_counted(place: Place) -> None:
    counted = "turnkeeper_unparsed_lines_total[demo]"
    assert (await gauges(place.client))[counted] == 0
    for lines in (3, 6):
        await play(place, MEANT["events that nobody knows"])
        assert (await gauges(place.client))[counted] == lines


@pytest.mark.failure("M13")
async def test_a_promise_in_the_last_allowed_turn_is_no_success(place: Place) -> None:
    run_id = (await play(place, MEANT["a task that is still running, in the last turn"]))["run_id"]
    await place.client.reply(run_id, "go on")
    run = await place.client.settled(run_id)
    assert (run["status"], run["error"]["code"]) == ("failed", "INTERACTIVE_MAX_ATTEMPT_EXCEEDED")


@pytest.mark.parametrize("engine", ["claude", "qwen", "codex", "gemini", "opencode"])
@pytest.mark.failure("M13")
@pytest.mark.parametrize(
    ("job", "status"), [(INTERACTIVE, "waiting_user"), (AUTO, "failed")], ids=["asked", "auto"]
)
async def test_a_promise_of_a_cli_is_no_success(clis: Place, engine: str, job: Json, status: str) -> None:
    run = await clis.client.settled(await start(clis, engine, "[[tool]] [[promise]]", **job))
    assert run["status"] == status


@pytest.mark.failure("M04")
@pytest.mark.parametrize("job", [INTERACTIVE, AUTO], ids=["interactive", "auto"])
async def test_success_with_an_error_in_it_is_a_failure(clis: Place, job: Json) -> None:
    """The closing event says `success`, `is_error` and 429, and an answer was given before."""
    run_id = await start(clis, "claude", "[[done]] [[fail:429]]", **job)
    run = await clis.client.settled(run_id)
    stored = (await clis.client.http.get(f"/v1/jobs/{run_id}/logs/1/1/stdout")).text
    assert '"subtype":"success"' in stored
    assert '"is_error":true' in stored
    assert (run["status"], run["error"]["code"]) == ("failed", "ENGINE_RATE_LIMITED")
    assert "scripted failure 429" in run["error"]["message"]


@pytest.mark.parametrize("engine", ["claude", "qwen"])
@pytest.mark.failure("M06")
async def test_a_result_that_repeats_the_last_message_is_not_a_second_one(clis: Place, engine: str) -> None:
    run_id = await start(clis, engine, "[[done]]", **INTERACTIVE)
    run = await clis.client.settled(run_id)
    assert (run["status"], warned(run)) == ("succeeded", [])
    assert await messages(clis, run_id) == [DONE]
    assert '"result"' not in await raw_words(clis, run_id)
