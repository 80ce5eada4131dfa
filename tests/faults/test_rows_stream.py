"""Bytes on the stream: whatever an engine does to them, the turn is heard, or its failure is told."""

from __future__ import annotations

import pytest

from tests.faults.rows import (
    AUTO,
    FAILED,
    RESIDENT,
    SUCCEEDED,
    Row,
    begin,
    check,
    each,
    messages,
    play,
    printed,
    raw_words,
)
from tests.harness import Client, Place
from turnkeeper.engines.base import Heard
from turnkeeper.engines.demo import DemoDialect
from turnkeeper.engines.lines import Line

AFTER_RESULT = ("ENGINE_FAILED_AFTER_RESULT",)
HEARD = {
    "lines that end as on Windows, byte by byte": Row(
        ids=("B04", "B07"), script="chaos/byte_by_byte", status=SUCCEEDED
    ),
    "no newline behind the last line": Row(ids=("B03",), script="chaos/no_last_newline", status=SUCCEEDED),
    "bytes that are no text": Row(
        ids=("B07",), script="chaos/broken_bytes", status=SUCCEEDED, raw=("caf\ufffd", "\x00")
    ),
    "characters that look like line ends": Row(
        ids=("B08",), script="chaos/odd_separators", status=SUCCEEDED, answer="a\u2028b\u2029c\x85d"
    ),
    "a spinner around the events": Row(ids=("B09",), script="chaos/terminal_noise", status=SUCCEEDED),
    "banners between the events": Row(
        ids=("B10",),
        script="chaos/banners",
        status=SUCCEEDED,
        raw=("Demo 1.0.0", "[1, 2]", '"a text"', "Bye."),
    ),
    "a line that is torn by death": Row(
        ids=("B11",), script="chaos/torn_line", status=SUCCEEDED, warned=AFTER_RESULT, raw=("turn.compl",)
    ),
    "a line that is torn by death, nobody to ask": Row(
        ids=("B11",), script="chaos/torn_line", status=FAILED, code="ENGINE_FAILED", job=AUTO
    ),
    "objects that share a line": Row(ids=("B12",), script="chaos/fused_lines", status=SUCCEEDED),
    "an object over many lines": Row(
        ids=("B12",), script="chaos/spread_object", status=SUCCEEDED, raw=('"message_id": "m90"',)
    ),
    "a torn object with others behind it": Row(
        ids=("B12",), script="chaos/fused_torn_line", status=SUCCEEDED, raw=('{"type": "tool", "call_',)
    ),
    "objects that share a line, of a resident": Row(
        ids=("B12",),
        script={
            "turns": [
                [
                    {"line_end": ""},
                    {"say": "one"},
                    {"say": "two"},
                    {"line_end": "\n"},
                    {"result": {"answer": "42"}},
                ]
            ]
        },
        status=SUCCEEDED,
        job=RESIDENT,
    ),
    "JSON to choke on": Row(ids=("B13",), script="chaos/hostile_json", status=SUCCEEDED),
    "a flood of stderr": Row(
        ids=("B14",), script="chaos/stderr_flood", status=SUCCEEDED, warned=("RAW_OUTPUT_CAPPED",)
    ),
    "a stdout that is closed early": Row(
        ids=("B16",), script="chaos/stdout_closed", status=SUCCEEDED, warned=AFTER_RESULT
    ),
    "a stdout that is closed early, nobody to ask": Row(
        ids=("B16",), script="chaos/stdout_closed", status=FAILED, code="ENGINE_FAILED", job=AUTO
    ),
    "a child that holds the pipes": Row(
        ids=("B17",), script="chaos/pipe_held", status=SUCCEEDED, warned=("ENGINE_LEFT_PROCESSES",)
    ),
}


@each(HEARD)
async def test_the_turn_is_heard(place: Place, row: Row) -> None:
    await play(place, row)


@pytest.mark.failure("B12")
@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("chaos/fused_lines", ["Let me look.", '{"__SKILL_DONE__": true, "answer": "42"}']),
        ("chaos/spread_object", ["Let me look.", '{"__SKILL_DONE__": true,\n "answer": "42"}']),
        ("chaos/fused_torn_line", ["Where was I?", '{"__SKILL_DONE__": true, "answer": "42"}']),
    ],
)
async def test_a_stream_out_of_step_is_heard_once_and_in_order(
    place: Place, script: str, said: list[str]
) -> None:
    run = await play(place, Row(ids=(), script=script, status=SUCCEEDED))
    assert await messages(place, run["run_id"]) == said


@pytest.mark.failure("B04", "B07")
async def test_the_words_are_whole_and_the_bytes_are_kept(place: Place) -> None:
    run_id = (await play(place, HEARD["lines that end as on Windows, byte by byte"]))["run_id"]
    assert (await messages(place, run_id))[0] == "Grüße aus Köln 😀"
    stored = await printed(place, run_id)
    assert stored.startswith(b"\xef\xbb\xbf{")
    assert stored.endswith(b"}}\r\n")

    broken = (await play(place, HEARD["bytes that are no text"]))["run_id"]
    assert b"caf\xe9 \xff\xfe \x00 \xf0\x9f\x98\n" in await printed(place, broken)
    assert (await messages(place, broken))[0].startswith("half a pair ")


@pytest.mark.failure("B08")
async def test_a_separator_inside_a_text_stays_there(place: Place) -> None:
    run_id = (await play(place, HEARD["characters that look like line ends"]))["run_id"]
    assert (await messages(place, run_id))[0] == "one\u2028two\u2029three\x85four\x0bfive\x0csix"
    assert await raw_words(place, run_id) == ""


@pytest.mark.failure("B13")
async def test_of_two_values_the_last_counts(place: Place) -> None:
    run_id = (await play(place, HEARD["JSON to choke on"]))["run_id"]
    assert (await messages(place, run_id))[0] == "last"


@pytest.mark.failure("B14")
async def test_a_flood_is_stored_whole_and_told_in_part(place: Place) -> None:
    """A sixteenth of a gigabyte: the drain and the cap of what is told do not know the difference."""
    run_id = (await play(place, HEARD["a flood of stderr"]))["run_id"]
    logs = (await place.client.http.get(f"/v1/jobs/{run_id}/logs")).json()["logs"]
    assert {log["stream"]: log["size"] for log in logs}["stderr"] == 64_000_000
    assert len(await raw_words(place, run_id)) < 2_000_000


@pytest.mark.failure("B16")
async def test_an_engine_without_stdout_works_to_its_end(place: Place) -> None:
    run_id = (await play(place, HEARD["a stdout that is closed early"]))["run_id"]
    assert (place.settings.data_dir / "runs" / run_id / "workspace" / "worked_on").exists()


@pytest.mark.failure("B01")
async def test_an_engine_that_works_in_silence_is_not_ended(place: Place) -> None:
    """It works for four times as long as it may be silent."""
    row = Row(
        ids=("B01",),
        script="chaos/buffered",
        status=SUCCEEDED,
        timeouts={"first_byte_sec": 0.5, "idle_sec": 0.5},
    )
    await play(place, row)


@pytest.mark.failure("B05")
async def test_a_long_line_is_read_and_a_longer_one_told(place: Place) -> None:
    run = await play(
        place, Row(ids=(), script="chaos/long_lines", status=SUCCEEDED, warned=("LINE_TRUNCATED",))
    )
    events = await place.client.events(run["run_id"])
    (thought,) = (event for event in events if event["type"] == "assistant.reasoning")
    assert len(thought["data"]["text"]) == 5_000_000
    (raw,) = (event for event in events if event["type"] == "raw.stdout")
    assert len(raw["data"]["text"]) <= 64 * 1024
    assert raw["raw_ref"]["length"] == 20_000_000


@pytest.mark.failure("B05")
async def test_a_line_of_a_hundred_megabytes_passes_by(place: Place) -> None:
    run = await play(place, Row(ids=(), script="flood_line", status=SUCCEEDED, warned=("LINE_TRUNCATED",)))
    logs = (await place.client.http.get(f"/v1/jobs/{run['run_id']}/logs")).json()["logs"]
    assert {log["stream"]: log["size"] for log in logs}["stdout"] > 100_000_000


@pytest.mark.failure("B05")
async def test_an_endless_line_meets_the_limit_of_the_turn(place: Place) -> None:
    row = Row(
        ids=(),
        script="chaos/endless_line",
        status=FAILED,
        code="TURN_TIMEOUT",
        warned=("LINE_TRUNCATED",),
        timeouts={"turn_sec": 5},
    )
    run_id = await begin(place, row)
    assert (await place.client.get(run_id))["status"] in (
        "queued",
        "running",
    )  # the service answers meanwhile
    await check(place, row, await place.client.settled(run_id))


@pytest.mark.failure("B06")
async def test_many_lines_are_a_few_events(place: Place) -> None:
    """And whoever looks meanwhile gets an answer. A tenth of a million: each is heard again to be judged again."""
    row = Row(ids=(), script="chaos/many_lines", status=SUCCEEDED, warned=())
    run_id = await begin(place, row)
    async for event in place.client.follow(run_id):
        if event["type"] == "raw.stdout":
            assert (await place.client.get(run_id))["status"] in ("running", "succeeded")
            break
    await check(place, row, await place.client.settled(run_id))
    assert len(await place.client.events(run_id)) < 200
    assert (await printed(place, run_id)).count(b"x\n") == 100_000


@pytest.mark.failure("B15")
async def test_an_engine_is_read_although_nobody_reads_its_events(place: Place) -> None:
    """More than any pipe and any socket takes in is said while a client looks away."""
    thoughts = [{"think": "x" * 20_000}] * 150
    run_id = await place.client.create(script={"turns": [[*thoughts, {"result": {"answer": "42"}}]]})
    slow = Client(place.service.url)
    try:
        stream = slow.follow(run_id)
        first = await anext(stream)
        assert (await place.client.ended(run_id))["status"] == "succeeded"
        assert [first, *[event async for event in stream]] == await place.client.events(run_id)
    finally:
        await slow.http.aclose()


class FaultyDialect(DemoDialect):
    """Trips over what no test of it has seen."""

    def hear(self, line: Line) -> Heard | None:
        if b"trip" in line.data:
            raise ZeroDivisionError("of a parser of ours")
        return super().hear(line)


@pytest.mark.failure("B18")
async def test_a_fault_of_the_reader_ends_the_turn_and_nothing_else(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = place.house.stage.engine("demo")
    monkeypatch.setattr(engine, "dialect", FaultyDialect, raising=False)
    row = Row(
        ids=(),
        script={"turns": [[{"say": "I trip here."}, {"hang": True}]]},
        status=FAILED,
        code="INTERNAL_ERROR",
        says=("of a parser of ours",),
    )
    run = await play(place, row)
    assert place.processes(run["run_id"]) == []
    for _ in range(place.settings.slots + 1):  # no slot was lost
        await play(place, Row(ids=(), script="done", status=SUCCEEDED))
