"""The real side of the model: a service that can be killed, its runs, and everything that was ever heard of them.

Each turn of a run is a script of the demo engine that stands still twice, until the test lets it go on: before it
says something, and before it ends as its outcome says.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import signal
import sqlite3
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx

from tests.faults.model_nursery import Born, Nursery, tell
from tests.faults.model_runs import AUTO, Kind, Outcome, Seen, Terms, World, fitting, quiet
from tests.harness import PATIENCE, QUICK, TOKEN, Client, Json
from turnkeeper.engines import census

HOP = timedelta(hours=7)
"""Time passes in hops: never within minutes of a deadline of an hour, or of the day that a key is kept."""
DEADLINE_SEC = 3600
KEY_HOPS = 3
"""So many hops after its request a key is still known."""
PASSWORD = ("a-password-in-", "the-environment")
"""Of the proxy that engines are told of. The service must not see it whole but where an engine prints it."""
PROXY = f"http://somebody:{''.join(PASSWORD)}@127.0.0.1:9/"
RECORD = "turns.ndjson"
SPARE = (Outcome.DONE, Outcome.DONE)
"""A turn that was finished unheard is followed by another one in the engine's session."""

PATIENT = QUICK | {"first_byte_sec": 600, "idle_sec": 600, "turn_sec": 600}
"""Turns stand still for as long as the steps between take."""
AT_ONCE = "at once"
"""The result of a run that asked nothing."""
PAST = ("succeeded", "failed", "canceled")


def last_steps(outcome: Outcome, answer: str) -> list[Json]:
    match outcome:
        case Outcome.ASKS:
            return [{"say": "Which colour?"}]
        case Outcome.DONE:
            return [{"result": {"answer": answer}}]
        case Outcome.QUIET:
            return [{"result": {"answer": answer}, "done": False}]
        case Outcome.WRONG:
            return [{"result": {"answer": 5}}]
        case Outcome.EXITS:
            return [{"exit": 7}]
        case Outcome.DIES:
            return [{"crash": "SEGV"}]
        case Outcome.LEAVES:
            return [{"result": {"answer": answer}}, {"no_terminal": True}]


@dataclass(slots=True)
class Card:
    """A run of the test: what was asked for, where it may be, what was heard of it."""

    run_id: str
    outcomes: tuple[Outcome, ...]
    worlds: set[World]
    log: list[Json] = field(default_factory=list)
    view: Json = field(default_factory=dict)
    history: list[Json] = field(default_factory=list)

    @property
    def world(self) -> World:
        """One of those that are left; they differ only in what cannot be seen."""
        return min(self.worlds, key=repr)

    @property
    def terms(self) -> Terms:
        return self.world.terms

    @property
    def legal(self) -> set[World]:
        """Those that fit what is seen now."""
        return fitting(quiet(self.worlds), self.seen)

    @property
    def thoughts(self) -> int:
        """How many the turn has had: one when it stands in its middle, two when it has spoken."""
        since = max(event["seq"] for event in self.log if event["type"] == "conversation.state.changed")
        return sum(event["type"] == "assistant.reasoning" for event in self.log[since:])

    @property
    def seen(self) -> Seen:
        error = self.view["error"]
        answers = [
            (AUTO, AUTO) if each["resolved_by"] == AUTO else (each["response"], each["resolved_by"])
            for each in self.history
            if each["response"] is not None
        ]
        return self.view["status"], self.view["attempt_number"], answers, error and error["code"]


def job(terms: Terms, outcomes: Sequence[Outcome]) -> Json:
    """The body that asks for it."""
    turns = [
        [
            {"record": RECORD},
            {"think": "working"},
            {"wait_for": f"say-{number}"},
            {"think": "the password is {{parameter.first}}{{parameter.second}}"},
            {"wait_for": f"end-{number}"},
            *last_steps(outcome, "{{reply}}" if number else AT_ONCE),
        ]
        for number, outcome in enumerate((*outcomes, *SPARE))
    ]
    script = {"turns": turns, "loadable": terms.loadable}
    first, second = PASSWORD
    body: Json = {
        "skill_id": "answer",
        "engine": "demo",
        "parameter": {"demo_script": script, "first": first, "second": second},
        "on_interrupted": "resume" if terms.resumes else "fail",
    }
    if terms.kind is Kind.AUTO:
        return body
    return body | {
        "execution_mode": "interactive",
        "interactive_profile": terms.kind.value,
        "interactive_require_user_reply": terms.strict,
        "session_timeout_sec": DEADLINE_SEC,
    }


class Place:
    """A data directory, the service on it, and the clients of the service."""

    def __init__(self, nursery: Nursery, *, slots: int, sticky_slots: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="turnkeeper-model-"))
        self.data_dir = self.folder / "data"
        self.slots, self.sticky_slots = slots, sticky_slots
        self.hop = 0
        self.disk_works = True
        self.had_disk_error = False
        self.data_id = ""
        self._nursery = nursery
        self._born: Born | None = None
        self._page: dict[str, str] = {}
        self.client: Client

    def start(self) -> None:
        self._born = self._nursery.bear(
            self.data_dir,
            shift_sec=self._shift_sec,
            slots=self.slots,
            sticky_slots=self.sticky_slots,
            timeouts=PATIENT,
        )
        self.client = Client(self._born.url)
        self.disk_works = True
        if not self.data_id:
            database = sqlite3.connect(self.data_dir / "turnkeeper.db", timeout=PATIENCE)
            with contextlib.closing(database):
                found = database.execute("SELECT value FROM meta WHERE name = 'data_id'").fetchone()
            self.data_id = str(found[0])

    async def kill(self) -> None:
        self.cut_power()
        await self.client.http.aclose()

    def cut_power(self) -> None:
        assert self._born is not None
        self._nursery.kill(self._born)
        self._born = None

    async def stop(self) -> None:
        assert self._born is not None
        await self.client.http.aclose()
        code = self._nursery.stop(self._born)
        self._born = None
        assert code == 0, self.service_log

    async def set_clock(self, hop: int) -> None:
        """When this returns, every deadline that has passed by then was looked at."""
        assert self._born is not None
        self.hop = hop
        await tell(self._born, shift_sec=self._shift_sec)

    async def set_disk(self, *, works: bool) -> None:
        assert self._born is not None
        self.disk_works = works
        self.had_disk_error = self.had_disk_error or not works
        await tell(self._born, disk=works)

    @property
    def _shift_sec(self) -> float:
        return (HOP * self.hop).total_seconds()

    async def clear(self) -> None:
        """Whatever happened, nothing is left."""
        if self._born is not None:
            await self.kill()
        if self.data_id:
            await census.end_all(self.data_id, first=signal.SIGKILL, step_sec=1)
        shutil.rmtree(self.folder)

    @property
    def service_log(self) -> str:
        return self.data_dir.with_suffix(".log").read_text()

    # Runs

    def raw(self, card: Card, turn: int) -> Path:
        return self.data_dir / "runs" / card.run_id / "raw" / f"{turn}.1.stdout"

    def unblock_raw_logs(self) -> None:
        for path in self.data_dir.glob("runs/*/raw/*"):
            if path.is_dir():
                path.rmdir()

    def workspace(self, card: Card) -> Path:
        return self.data_dir / "runs" / card.run_id / "workspace"

    def processes(self, card: Card | None = None) -> list[census.Found]:
        return census.find(f"{self.data_id}/{card.run_id}" if card else self.data_id)

    def recorded(self, card: Card) -> list[Json]:
        """What each try of each turn was told, as its process wrote it down."""
        path = self.workspace(card) / RECORD
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def playing(self, card: Card) -> int:
        """Which turn of its script the run is in the middle of."""
        return int(self.recorded(card)[-1]["turn"])

    def let_go_on(self, card: Card, *gates: str) -> None:
        for gate in gates:
            (self.workspace(card) / f"{gate}-{self.playing(card)}").touch()

    def stand_still_again(self, card: Card) -> None:
        """A turn that was cut off is held again when it is played again, and so is what follows an unheard one."""
        for path in self.workspace(card).glob("???-*"):
            path.unlink()

    # Calls

    async def create(self, body: Json, key: str | None) -> httpx.Response:
        headers = {"Idempotency-Key": key} if key else {}
        return await self.client.http.post("/v1/jobs", json=body, headers=headers)

    async def sign_in(self) -> None:
        """Another person, in a browser; a cookie does not outlast every jump of the clock."""
        body = {"token": TOKEN}
        signed_in = await self.client.http.post("/v1/session", json=body, headers={"Origin": self.client.url})
        assert signed_in.status_code == 200, signed_in.text
        cookie = signed_in.headers["Set-Cookie"].partition(";")[0]
        self._page = {"Cookie": cookie, "X-Turnkeeper-Page": signed_in.json()["page_key"]}
        self.client.http.cookies.clear()

    async def reply(self, card: Card, number: int, words: str, by: str) -> httpx.Response:
        if by == "token":
            return await self.client.post_reply(card.run_id, number, words)
        body = {"interaction_id": number, "response": words}
        headers = self._page | {"Origin": self.client.url, "Authorization": ""}
        path = f"/v1/jobs/{card.run_id}/interaction/reply"
        return await self.client.http.post(path, json=body, headers=headers)

    async def cancel(self, card: Card) -> httpx.Response:
        return await self.client.http.post(f"/v1/jobs/{card.run_id}/cancel")

    async def get(self, path: str, **params: Any) -> Json:
        answer = await self.client.http.get(path, params=params)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def look(self, cards: Sequence[Card]) -> None:
        """What the API and the logs tell now; a log goes exactly as far as the view of its run."""
        views = {view["run_id"]: view for view in (await self.get("/v1/jobs", limit=200))["jobs"]}
        assert set(views) == {card.run_id for card in cards}, (
            "a run is lost, or there is one that nobody asked for"
        )
        for card in cards:
            known, view = card.view.get("last_seq", 0), views[card.run_id]
            card.view = view
            if view["last_seq"] != known:
                card.log += await self._events(card, known + 1, view["last_seq"])
                path = f"/v1/jobs/{card.run_id}/interaction/history"
                card.history = (await self.get(path))["interactions"]

    async def reread(self, card: Card) -> list[Json]:
        """The whole log, whatever was read before."""
        return await self._events(card, 1, card.view["last_seq"])

    async def _events(self, card: Card, first: int, last: int) -> list[Json]:
        path = f"/v1/jobs/{card.run_id}/events/history"
        page = await self.get(path, from_seq=first, to_seq=last, limit=1000)
        assert page["next_from_seq"] is None
        return list(page["events"])


class Listener:
    """Follows the log of a run, is cut off, and comes back with its cursor."""

    def __init__(self, card: Card) -> None:
        self.card = card
        self.heard: list[Json] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def is_there(self) -> bool:
        return self._task is not None and not self._task.done()

    def come(self, client: Client) -> None:
        """Must be called on the loop."""
        self._task = asyncio.create_task(self._listen(client))

    async def leave(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, httpx.TransportError):
                await task

    async def catch_up(self, client: Client) -> None:
        """Until all that the run has said by now was heard."""
        if not self.is_there:
            self.come(client)
        deadline = time.monotonic() + PATIENCE
        while len(self.heard) < self.card.view["last_seq"] and self.is_there:
            assert time.monotonic() < deadline, (
                f"{self.card.run_id}: only {len(self.heard)} events were heard"
            )
            await asyncio.sleep(0.002)
        await self.leave()

    async def _listen(self, client: Client) -> None:
        async for event in client.follow(self.card.run_id, after=len(self.heard)):
            self.heard.append(event)
