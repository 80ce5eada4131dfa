"""A real service for tests: on loopback, in its own data directory, with real child processes.

`Client` speaks HTTP and nothing else. `Daemon` is a service in a process of its own, to be killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import select
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Any, Protocol

import httpx
from starlette.types import ASGIApp, Receive, Scope, Send

from tests import sound, surroundings
from tests.sound import assert_judged_alike as assert_judged_alike
from tests.sound import assert_log as assert_log
from turnkeeper.core.access import Caller
from turnkeeper.engines import census
from turnkeeper.runtime.clock import utc_now
from turnkeeper.settings import Settings, load_settings
from turnkeeper.web.door import CALLER, Door
from turnkeeper.wiring import Service, running

surroundings.settle()

SKILLS = Path(__file__).parent / "fakes" / "skills"
TOKEN = "a-token-for-tests-only"
PATIENCE = 30
"""Seconds after which a test gives up waiting; nothing is ever waited for this long when all is well."""
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Made once: each client would read all the certificates of the machine, for a connection that needs none."""
DOOR = Door(TOKEN, "any-data", utc_now)
"""For an app that nobody comes into."""
OWNER = Caller(by="token")


def let_in(app: ASGIApp, caller: Caller = OWNER) -> ASGIApp:
    """An app without its guard, whom everybody is this caller to."""

    async def known(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, CALLER: caller}, receive, send)

    return known


QUICK = {"first_byte_sec": 20, "idle_sec": 20, "turn_sec": 60, "result_grace_sec": 0.5, "step_sec": 0.5}

Json = dict[str, Any]

OVER = ("succeeded", "failed", "canceled")


class Clock:
    """The real time, moved by hand when a test wants to be elsewhere."""

    def __init__(self) -> None:
        self._shift = timedelta(0)

    def __call__(self) -> datetime:
        return utc_now() + self._shift

    def advance(self, seconds: float) -> None:
        self._shift += timedelta(seconds=seconds)


class Client:
    """What an integrator would write."""

    def __init__(self, url: str, token: str = TOKEN, *, address: str | None = None) -> None:
        """`address`: where it comes from, if that shall not be where everybody comes from."""
        self.url = url
        headers = {"Authorization": f"Bearer {token}"}
        way = httpx.AsyncHTTPTransport(verify=NO_TLS, trust_env=False, local_address=address)
        self.http = httpx.AsyncClient(
            base_url=url, headers=headers, timeout=PATIENCE, trust_env=False, transport=way
        )

    async def create(self, skill: str = "answer", script: Any = None, **body: Any) -> str:
        answer = await self.post_job(skill, script, **body)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["run_id"])

    async def post_job(self, skill: str = "answer", script: Any = None, **body: Any) -> httpx.Response:
        body = {"skill_id": skill, "engine": "demo"} | body
        if script is not None:
            body["parameter"] = {"demo_script": script} | body.get("parameter", {})
        return await self.http.post(
            "/v1/jobs", json={name: value for name, value in body.items() if value is not None}
        )

    async def get(self, run_id: str) -> Json:
        return self._json(await self.http.get(f"/v1/jobs/{run_id}"))

    async def runs(self) -> list[Json]:
        """All of them, newest first."""
        found: list[Json] = []
        params: Json = {"limit": 200}
        while True:
            page = self._json(await self.http.get("/v1/jobs", params=params))
            found += page["jobs"]
            if page["next_cursor"] is None:
                return found
            params["cursor"] = page["next_cursor"]

    async def settled(self, run_id: str) -> Json:
        """The run once it waits or has ended."""
        return self._json(await self.http.get(f"/v1/jobs/{run_id}", headers={"Prefer": f"wait={PATIENCE}"}))

    async def until(self, run_id: str, *states: str) -> Json:
        """The run once it is in one of these states, seen through its event stream."""
        async with asyncio.timeout(PATIENCE):
            async for event in self.follow(run_id):
                if event["type"] == "conversation.state.changed" and event["data"]["to"] in states:
                    return await self.get(run_id)
        raise AssertionError(f"the run never was in {states}: {await self.get(run_id)}")

    async def ended(self, run_id: str) -> Json:
        async with asyncio.timeout(PATIENCE):
            async for _ in self.follow(run_id):
                pass
        return await self.get(run_id)

    async def pending(self, run_id: str) -> Json:
        found = self._json(await self.http.get(f"/v1/jobs/{run_id}/interaction/pending"))["pending"]
        assert found is not None, await self.get(run_id)
        return dict(found)

    async def post_reply(
        self, run_id: str, interaction_id: int, response: Any, **more: Any
    ) -> httpx.Response:
        body = {"interaction_id": interaction_id, "response": response} | more
        return await self.http.post(f"/v1/jobs/{run_id}/interaction/reply", json=body)

    async def reply(self, run_id: str, response: Any) -> Json:
        """Answers the open question."""
        pending = await self.pending(run_id)
        return self._json(await self.post_reply(run_id, pending["interaction_id"], response))

    async def history(self, run_id: str) -> list[Json]:
        return list(self._json(await self.http.get(f"/v1/jobs/{run_id}/interaction/history"))["interactions"])

    async def cancel(self, run_id: str) -> Json:
        return self._json(await self.http.post(f"/v1/jobs/{run_id}/cancel"))

    async def result(self, run_id: str) -> Json:
        return dict(self._json(await self.http.get(f"/v1/jobs/{run_id}/result"))["result"])

    async def events(self, run_id: str) -> list[Json]:
        """The whole log so far, as JSON."""
        found: list[Json] = []
        start: int | None = 1
        while start is not None:
            params = {"from_seq": start, "limit": 1000}
            page = self._json(await self.http.get(f"/v1/jobs/{run_id}/events/history", params=params))
            found += page["events"]
            start = page["next_from_seq"]
        return found

    async def follow(self, run_id: str, after: int = 0) -> AsyncIterator[Json]:
        """The log as a stream, to its end."""
        async for name, data in self.frames(run_id, after):
            if name == "chat_event":
                yield data

    async def frames(self, run_id: str, after: int = 0) -> AsyncIterator[tuple[str, Json]]:
        params = {"cursor": after}
        async with self.http.stream("GET", f"/v1/jobs/{run_id}/events", params=params) as answer:
            assert answer.status_code == 200, await answer.aread()
            name = ""
            async for line in _lines(answer):
                if line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    yield name, json.loads(line.removeprefix("data: "))

    @staticmethod
    def _json(answer: httpx.Response) -> Json:
        assert answer.status_code == 200, answer.text
        return dict(answer.json())


async def _lines(answer: httpx.Response) -> AsyncIterator[str]:
    """Ended by a line feed and nothing else: U+2028 is an ordinary character in JSON."""
    rest = ""
    async for part in answer.aiter_text():
        *lines, rest = (rest + part).split("\n")
        for line in lines:
            yield line


class Place:
    """A running service and a client for it."""

    def __init__(self, service: Service, clock: Clock, settings: Settings) -> None:
        self.service = service
        self.house = service.house
        self.clock = clock
        self.settings = settings
        self.client = Client(service.url)
        self.secrets = [TOKEN]
        """Found in no file at the end; a test that hands out more of them adds them here."""

    async def pass_time(self, seconds: float) -> int:
        """Time is passed, never slept: deadlines see the new moment at once."""
        self.clock.advance(seconds)
        return await self.house.deadlines.sweep(self.clock())

    def processes(self, run_id: str = "") -> list[census.Found]:
        """Every live process of this service's runs, or of one of them."""
        return census.find(f"{self.house.store.data_id}/{run_id}".rstrip("/"))

    async def assert_sound(self) -> None:
        """What must hold after every test, whatever happened in it."""
        runs = await self.client.runs()
        for run in runs:
            # A run may go on between the two reads; its log up to what the first one saw must fit it.
            events = (await self.client.events(run["run_id"]))[: run["last_seq"]]
            sound.assert_log(events, run)
            if self.house.is_ready:  # one that stops ends its streams where they are
                await sound.assert_streamed_alike(self.client.follow(run["run_id"]), events)
            await self._assert_judged_alike(run["run_id"])
            if run["status"] in OVER or is_free(run):
                assert not self.processes(run["run_id"]), (
                    f"{run['run_id']} is {run['status']} and has processes"
                )
        await sound.assert_slots(self.house.dispatcher, runs)
        await asyncio.to_thread(sound.assert_hidden, self.settings.data_dir, self.secrets)
        if runs and runs[0]["status"] in OVER:
            await asyncio.to_thread(sound.assert_shown_alike, self.settings.data_dir, runs[0])

    async def _assert_judged_alike(self, run_id: str) -> None:
        run = await self.house.store.run(run_id)
        assert run is not None
        interactions = await self.house.store.interactions(run_id)
        for attempt in await self.house.store.attempts(run_id):
            assert_judged_alike(self.house.stage, run, attempt, interactions)


def is_free(run: Json) -> bool:
    """It waits without a process."""
    return bool(run["status"] == "waiting_user" and run["interactive_profile"]["kind"] == "resumable")


def states(events: list[Json]) -> list[str]:
    """The states a run went through, as its log tells."""
    changes = [event["data"] for event in events if event["type"] == "conversation.state.changed"]
    return ["queued", *(change["to"] for change in changes)]


def settings_for(data_dir: Path, **more: Any) -> Settings:
    given = {"data_dir": data_dir, "skills_dir": (SKILLS,), "port": 0, "token": TOKEN, "timeouts": QUICK}
    return load_settings(**(given | more))


@asynccontextmanager
async def opened(data_dir: Path, **more: Any) -> AsyncIterator[Place]:
    """A service in this process; after the test everything about it must be sound, and nothing alive."""
    clock = Clock()
    settings = settings_for(data_dir, **more)
    async with running(settings, clock=clock) as service:
        place = Place(service, clock, settings)
        try:
            yield place
            await place.assert_sound()
        finally:
            await place.client.http.aclose()
    assert not census.find(service.house.store.data_id), "the service left processes behind"


class ServiceProcess(Protocol):
    """What a test does to a service that is a process of its own; a `subprocess.Popen` can do it."""

    @property
    def pid(self) -> int: ...
    @property
    def stdout(self) -> IO[bytes] | None: ...
    def send_signal(self, number: int, /) -> None: ...
    def kill(self) -> None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def communicate(self) -> tuple[bytes, bytes | None]: ...


class Daemon:
    """`turnkeeper serve` as a process of its own. It can be killed, and started again on the same data."""

    def __init__(self, data_dir: Path, **env: str) -> None:
        self.data_dir = data_dir
        self._env = env
        self._process: ServiceProcess | None = None
        self.client: Client

    def start(self) -> None:
        quick = {f"TURNKEEPER_TIMEOUTS__{name.upper()}": str(value) for name, value in QUICK.items()}
        env = os.environ | quick | {"TURNKEEPER_TOKEN": TOKEN} | self._env
        command = ["serve", "--port", "0", "--data-dir", str(self.data_dir), "--skills-dir", str(SKILLS)]
        with (self.data_dir.parent / "service.log").open("a") as log:
            self._process = self._launch(command, env, log)
        try:
            self.client = Client(self._url())
        except BaseException:  # one that does not come up must not stay either
            self._process.kill()
            self._process.communicate()
            self._process = None
            raise

    def _launch(self, command: list[str], env: dict[str, str], log: IO[str]) -> ServiceProcess:
        command = [sys.executable, "-m", "turnkeeper", *command]
        return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=log)

    def _url(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        said, pipe = b"", self._process.stdout.fileno()
        deadline = time.monotonic() + PATIENCE
        while not (found := re.search(rb"ready at (http://127\.0\.0\.1:\d+)\n", said)):
            ready, _, _ = select.select([pipe], [], [], max(0, deadline - time.monotonic()))
            part = os.read(pipe, 4096) if ready else b""
            assert part, f"the service did not start: {(self.data_dir.parent / 'service.log').read_text()}"
            said += part
        return found[1].decode()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def kill(self) -> None:
        """As a power cut would, for this process."""
        await self._gone(signal.SIGKILL)

    async def stop(self) -> int:
        """Gracefully; returns the exit code."""
        return await self._gone(signal.SIGTERM)

    async def _gone(self, number: int) -> int:
        assert self._process is not None
        await self.client.http.aclose()
        self._process.send_signal(number)
        code = self._process.wait(PATIENCE)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None
        return code

    @property
    def is_running(self) -> bool:
        return self._process is not None


async def wait_for_file(path: Path) -> None:
    """Until an engine has touched it: a test meets an exact moment of a turn."""
    deadline = time.monotonic() + PATIENCE
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never appeared"
        await asyncio.sleep(0.005)
