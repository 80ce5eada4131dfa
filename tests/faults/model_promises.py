"""What must hold whatever happened: after each step what can be seen at once, at the end all that takes longer."""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from tests.crash.restarts import CUT_OFF
from tests.faults.model_place import AT_ONCE, PASSWORD, PAST, Card, Listener, Place
from tests.faults.model_runs import AUTO
from tests.harness import TOKEN, Json, assert_judged_alike, assert_log, settings_for
from turnkeeper import wiring
from turnkeeper.engines import census

ENGINES_OWN = ("home", "workspace")
"""Folders of a run that its engine writes: what it keeps there is its own."""

HEARD = {AUTO: "Nobody answered within", "": "an empty message"}
"""How an engine is told what nobody said in words."""


def rebuilt(log: Sequence[Json]) -> Json:
    """The state of a run from its stream alone, as a client would make it."""
    told: dict[str, Any] = {
        "status": "queued",
        "attempt_number": 0,
        "pending_interaction_id": None,
        "error": None,
    }
    usage: Counter[str] = Counter()
    warnings: list[str] = []
    for event in log:
        data = event["data"]
        match event["type"]:
            case "conversation.state.changed":
                told |= {"status": data["to"], "attempt_number": event["meta"]["attempt"]}
                told["pending_interaction_id"] = data.get("pending_interaction_id")
            case "conversation.failed":
                told["error"] = data["error"]
            case "usage.reported":
                usage.update(data)
            case "diagnostic.warning":
                warnings.append(data["code"])
    return told | {"usage": dict(usage), "warnings": sorted(warnings)}


def assert_told_alike(card: Card) -> None:
    """Numbered from 1 without a gap, one end, and the same as the API says."""
    assert_log(card.log, card.view)
    warnings = sorted(warning["code"] for warning in card.view["warnings"])
    told = rebuilt(card.log)
    assert told == {name: card.view[name] for name in told} | {"warnings": warnings}, card.run_id


def assert_asked_before_shown(card: Card) -> None:
    """Whoever saw the question in the log finds it stored, word for word."""
    shown = {
        event["data"]["interaction_id"]: event["data"]["prompt"]
        for event in card.log
        if event["type"] == "user.input.required"
    }
    stored = {each["interaction_id"]: each["prompt"] for each in card.history}
    assert shown.items() <= stored.items(), f"{card.run_id}: {shown} was shown, {stored} is stored"
    accepted = Counter(
        event["data"]["interaction_id"]
        for event in card.log
        if event["type"] in ("interaction.reply.accepted", "interaction.auto_decide.timeout")
    )
    assert all(times == 1 for times in accepted.values()), f"{card.run_id}: a question has two answers"


def assert_processes(cards: Sequence[Card], found: Sequence[census.Found]) -> None:
    """Looked for after the views were read: one tree for a run at most, and none for one that has no turn."""
    marks: dict[str, set[str]] = defaultdict(set)
    for each in found:
        if each.mark is not None:
            _, run_id, turn = each.mark.split("/")
            marks[run_id].add(turn)
    for card in cards:
        trees = marks[card.run_id]
        assert len(trees) <= 1, f"{card.run_id} has {len(trees)} process trees: {trees}"
        is_at_rest = card.view["status"] in PAST or not any(world.holds_slot for world in card.worlds)
        assert not (trees and is_at_rest), (
            f"{card.run_id} is {card.view['status']} and has a process: {trees}"
        )


async def assert_all_kept(place: Place, cards: Sequence[Card], listeners: Sequence[Listener]) -> None:
    """Of a service that still answers."""
    for card in cards:
        assert await place.reread(card) == card.log, f"the past of {card.run_id} is another one now"
        await _assert_result(place, card)
        _assert_no_silent_repeat(place, card)
    for listener in listeners:
        await listener.catch_up(place.client)
        assert listener.heard == listener.card.log, (
            f"a listener heard something else of {listener.card.run_id}"
        )


async def _assert_result(place: Place, card: Card) -> None:
    """Success has an output that is valid, of the reply that was accepted, and says by which evidence."""
    if card.view["status"] != "succeeded":
        return
    end, path = card.log[-1], f"/v1/jobs/{card.run_id}/result"
    assert end["type"] == "conversation.completed"
    assert end["data"]["reason_code"]
    result = (await place.get(path))["result"]
    assert list(result) == ["answer"]
    said = card.seen[2][-1][0] if card.seen[2] else AT_ONCE
    is_told_again = any(told["prompt"].startswith(CUT_OFF) for told in place.recorded(card))
    # An engine that had finished a turn unheard got the same words once more, in others: its script is a turn ahead.
    is_heard = HEARD.get(said, said) in result["answer"] or (is_told_again and said == AT_ONCE)
    is_alone = result["answer"] == said or said in HEARD or is_told_again
    assert is_heard, f"{card.run_id}: {result} for {said}"
    assert is_alone, f"{card.run_id}: {result} for {said}"
    warning = card.world.end and card.world.end.warning
    assert warning is None or warning in {each["code"] for each in card.view["warnings"]}


def _assert_no_silent_repeat(place: Place, card: Card) -> None:
    """Each reply is heard in one turn; whoever is told again is told that it was cut off."""
    tries = Counter(
        event["meta"]["attempt"]
        for event in card.log
        if event["type"] == "conversation.state.changed" and event["data"]["trigger"] == "turn.started"
    )
    assert sorted(tries) == list(range(1, card.view["attempt_number"] + 1))
    resumed = Counter(
        event["meta"]["attempt"]
        for event in card.log
        if event["type"] == "conversation.state.changed" and event["data"]["trigger"] == "restart.resume_turn"
    )
    for turn, times in tries.items():
        assert times <= resumed[turn] + 1, f"turn {turn} of {card.run_id} was started {times} times"
    told = [entry["prompt"] for entry in place.recorded(card)]
    fresh = [words for words in told if not words.startswith(CUT_OFF)]
    is_restarted = "TURN_RESTARTED" in {warning["code"] for warning in card.view["warnings"]}
    assert len(fresh) <= len(tries) or is_restarted, (
        f"{card.run_id} was told as if for the first time: {told}"
    )


async def assert_left_in_order(place: Place, cards: Sequence[Card]) -> None:
    """Of a service that has stopped."""
    place.unblock_raw_logs()
    assert not place.processes(), "the service left processes behind"
    with closing(sqlite3.connect(place.data_dir / wiring.DATABASE)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert not database.execute("SELECT id FROM runs WHERE lease IS NOT NULL").fetchall()
    async with wiring.archive(settings_for(place.data_dir)) as archive:
        for card in cards:
            run, asked = await archive.store.run(card.run_id), await archive.store.interactions(card.run_id)
            assert run is not None
            for attempt in await archive.store.attempts(card.run_id):
                assert_judged_alike(archive.stage, run, attempt, asked)
                assert attempt.ended_at is not None
    _assert_no_secret(place)
    assert place.had_disk_error or "Traceback" not in place.service_log, place.service_log


def _assert_no_secret(place: Place) -> None:
    for path in place.folder.rglob("*"):
        parts = path.relative_to(place.folder).parts
        if path.is_file() and not (len(parts) > 3 and parts[3] in ENGINES_OWN):
            stored = path.read_bytes()
            for secret in (TOKEN, "".join(PASSWORD)):
                assert secret.encode() not in stored, f"a secret is in {path}"


def assert_secret_hidden(card: Card) -> None:
    for text in (str(card.log), str(card.view), str(card.history)):
        assert "".join(PASSWORD) not in text
        assert TOKEN not in text
