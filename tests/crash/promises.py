"""What the service promised to a guest, held against everything that is there in the end."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter

from tests.crash.guest import LOOK_EVERY_SEC, Guest, Stay
from tests.crash.restarts import CUT_OFF
from tests.harm import Harm, require
from tests.harness import PATIENCE, Json, assert_log
from turnkeeper.core.statechart import State, Trigger, next_state
from turnkeeper.skills import schema
from turnkeeper.web.door import TOKEN

FAULTS = re.compile(r"^.*(?: ERROR |Traceback).*$", re.MULTILINE)
HALF_DONE = ("*.new", "skills/.moving/*", "lent/*", "runs/*/home/**/.*.turnkeeper")
"""Where things stand only while something is on its way."""
OF_A_TURN = ("uploads.new", "skill.new", "home/**/*.new")
"""The same in the folder of a run; one that was ended in between may have kept it, and does not look at it again."""


async def keep(guest: Guest) -> None:
    """Of a service that answers, when its guest has got all it came for; every run is over."""
    await _require_rest(guest)
    stored = {run["run_id"]: run for run in await guest.insist(lambda client: client.runs())}
    require(stored.keys() >= guest.stays.keys(), Harm.LOST, f"accepted runs are missing: {guest.stays}")
    require(stored.keys() <= guest.stays.keys(), Harm.DOUBLED, f"nobody asked for {stored.keys()}")
    for stay in guest.stays.values():
        again = await guest.create_again(stay.key, stay.body)
        require(again == stay.run_id, Harm.DOUBLED, f"{stay.key} is now {again}, and was {stay.run_id}")
        run = await guest.ended(stay)
        events = await guest.insist(lambda client, stay=stay: client.events(stay.run_id))  # type: ignore[misc]
        history = await guest.insist(lambda client, stay=stay: client.history(stay.run_id))  # type: ignore[misc]
        _require_story(stay, run, events)
        _require_end(guest, stay, run, _changes(events)[-1]["trigger"])
        _require_replies(stay, events, history)
        _require_turns(guest, stay, run, events)
        if run["status"] == "succeeded":
            await _require_result(guest, stay)


async def keep_on_disk(guest: Guest) -> None:
    """Of a service that has stopped: nothing is alive or half done, and every verdict can be given again."""
    await guest.service.assert_sound()
    data = guest.service.data_dir
    left = [path for pattern in HALF_DONE for path in data.glob(pattern)]
    for stay in guest.stays.values():
        if stay.seen[-1]["type"] == "conversation.completed":
            left += [path for each in OF_A_TURN for path in (data / "runs" / stay.run_id).glob(each)]
    require(not left, Harm.LEFTOVER, f"half done: {left}")
    faults = FAULTS.findall((data.parent / "service.log").read_text())
    require(not faults, Harm.WRONG, f"the service logged {faults}")


async def _require_rest(guest: Guest) -> None:
    """No process, and no slot that is still taken; a slot is given back a moment after the change that all see."""
    left = guest.service.processes()
    require(not left, Harm.LEFTOVER, f"alive after every run has ended: {left}")
    deadline = time.monotonic() + PATIENCE
    while True:
        text = (await guest.insist(lambda client: client.http.get("/metrics"))).text
        found = dict(re.findall(r"^turnkeeper_(slots_busy|slots_waiting|queue) (\d+)", text, re.MULTILINE))
        if set(found.values()) == {"0"}:
            return
        require(time.monotonic() < deadline, Harm.LEFTOVER, f"slots are still taken: {found}")
        await asyncio.sleep(LOOK_EVERY_SEC)


def _require_story(stay: Stay, run: Json, events: list[Json]) -> None:
    """The log has no gap, is what the stream told across every kill, and takes no step that the table does not know."""
    assert_log(events, run)
    require(events == stay.seen, Harm.LOST, f"the log is not what was streamed: {stay.seen} and {events}")
    require(run["last_seq"] == len(events), Harm.WRONG, run)
    for change in _changes(events):
        assert next_state(State(change["from"]), Trigger(change["trigger"])) == change["to"], change


def _require_end(guest: Guest, stay: Stay, run: Json, trigger: str) -> None:
    """As the scenario says, or by a failure that the kill explains."""
    code = run["error"] and run["error"]["code"]
    if stay.is_canceled:
        require(run["status"] == "canceled", Harm.LOST, f"its cancel was accepted: {run}")
    elif (run["status"], code) != stay.expected:
        excused = guest.service.excuses.get(stay.run_id, set())
        require(run["status"] == "failed", Harm.WRONG, run)
        require(code in excused, Harm.LOST, f"nothing excuses {code}, only {excused}: {run}")
        told = run["recovery"] is not None or trigger == "interaction.process_lost"
        require(told, Harm.WRONG, f"it is not told why: {run}")


def _require_replies(stay: Stay, events: list[Json], history: list[Json]) -> None:
    """Each that was accepted is there, once, with who gave it; each question is stored before it is shown."""
    mine = {each["interaction_id"]: each for each in history if each["resolution_mode"] == "user_reply"}
    require(stay.receipts <= mine.keys(), Harm.LOST, f"{stay.receipts} were accepted: {history}")
    for number, each in mine.items():
        require(each["response"] == stay.replies[number], Harm.WRONG, each)
        require(each["resolved_by"] == TOKEN, Harm.WRONG, each)
    told = Counter(e["data"]["interaction_id"] for e in events if e["type"] == "interaction.reply.accepted")
    require(told == Counter(mine.keys()), Harm.DOUBLED, f"{told} was told of {mine.keys()}")
    asked = [e["data"]["interaction_id"] for e in events if e["type"] == "user.input.required"]
    require(asked == [each["interaction_id"] for each in history], Harm.WRONG, f"{asked}, {history}")


def _require_turns(guest: Guest, stay: Stay, run: Json, events: list[Json]) -> None:
    """What the engines wrote down themselves: a turn that was played again was told so, and the log tells it, too."""
    turns = guest.service.turns(stay.run_id)
    resumed = sum(change["trigger"] == "restart.resume_turn" for change in _changes(events))
    anew = [turn["prompt"] for turn in turns if CUT_OFF not in turn["prompt"]]
    again = len(turns) - len(anew)
    require(len(anew) == len(set(anew)), Harm.DOUBLED, f"an engine was told twice as if it were new: {anew}")
    require(len(anew) <= run["attempt_number"], Harm.DOUBLED, f"{len(anew)} turns were begun: {run}")
    require(again <= resumed, Harm.DOUBLED, f"{again} turns were played again, {resumed} are told of")
    starts = sum(change["trigger"] == "turn.started" for change in _changes(events))
    require(len(turns) <= starts, Harm.DOUBLED, f"{len(turns)} turns were played, {starts} were started")


async def _require_result(guest: Guest, stay: Stay) -> None:
    """Valid by the skill's own schema, and with the words of the person if one was asked."""
    result = await guest.insist(lambda client: client.result(stay.run_id))
    wanted = {"type": "object", "required": ["answer"], "properties": {"answer": {"type": "string"}}}
    require(not schema.errors(wanted, result), Harm.WRONG, f"not valid: {result}")
    attempts = await guest.insist(lambda client: client.http.get(f"/v1/jobs/{stay.run_id}/attempts"))
    *_, last = attempts.json()["attempts"]
    require(
        last["verdict"]["verdict"] == "succeeded" and last["evidence"], Harm.WRONG, f"no evidence: {last}"
    )
    if stay.echoes and stay.receipts:
        said = str(result["answer"]).split("\n\n")[-1].strip()
        require(said == stay.replies[max(stay.receipts)], Harm.LOST, f"the reply was not heard: {result}")


def _changes(events: list[Json]) -> list[Json]:
    return [event["data"] for event in events if event["type"] == "conversation.state.changed"]
