"""How the service itself is doing, and what there is: health, metrics, skills, engines."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.harness import SKILLS, Client, Json, Place, opened, settings_for
from tests.spec.scripts import ASK, INTERACTIVE, STICKY, Latch, script
from tests.store import sample
from tests.web.patience import eventually, settle
from tests.web.problems import assert_problem
from tests.web.sse import connected
from turnkeeper import __version__, wiring
from turnkeeper.core.errors import Code, StorageUnavailable
from turnkeeper.core.fcmp import instant
from turnkeeper.core.statechart import State
from turnkeeper.web.app import make_app
from turnkeeper.web.traffic import Traffic


async def gauges(client: Client) -> dict[str, float]:
    answer = await client.http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        sample.name + "".join(f"[{value}]" for value in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


async def status(client: Client) -> Json:
    answer = await client.http.get("/v1/status")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def test_healthy_and_ready(client: Client) -> None:
    for path in ("/healthz", "/readyz"):
        answer = await client.http.get(path)
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


async def test_not_ready_while_it_stops(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as place:
        place.house.begin_stop()
        answer = await place.client.http.get("/readyz")
        assert (answer.status_code, answer.json()) == (503, {"status": "stopping"})
        assert (await place.client.http.get("/healthz")).status_code == 200
        refused = await place.client.post_job("answer", "done")
        assert_problem(refused, 503, Code.SHUTTING_DOWN)
        assert int(refused.headers["retry-after"]) > 0


async def test_metrics_count_what_there_is(tmp_path: Path, latch: Latch) -> None:
    async with opened(tmp_path / "data", slots=2) as place:
        client = place.client
        before = await gauges(client)
        assert before["turnkeeper_slots"] == 2
        assert (
            before["turnkeeper_runs[running]"]
            == before["turnkeeper_streams"]
            == before["turnkeeper_queue"]
            == 0
        )

        resumable = await client.create("answer", script([ASK]), **INTERACTIVE)
        await client.settled(resumable)
        profile = {"interactive_profile": "sticky_process"}
        sticky = await client.create("answer", script([ASK]), **INTERACTIVE, **profile)
        await client.settled(sticky)
        busy = await client.create("answer", script([*latch.steps, {"result": {"answer": "x"}}]))
        await latch.reached()
        await client.create("answer", "auto_done")
        async with connected(client, busy) as stream:
            await anext(stream)
            now = await gauges(client)
        assert now["turnkeeper_runs[waiting_user]"] == 2
        assert now["turnkeeper_runs[running]"] == 1
        assert now["turnkeeper_runs[queued]"] == 1
        assert now["turnkeeper_slots_busy"] == 2
        assert now["turnkeeper_slots_waiting"] == 1
        assert (now["turnkeeper_sticky_slots"], now["turnkeeper_sticky_slots_busy"]) == (1, 1)
        assert now["turnkeeper_queue"] == 1
        assert now["turnkeeper_streams"] == 1
        assert now["turnkeeper_changes_total"] >= 4
        assert now["turnkeeper_transactions_total"] >= 4
        latch.open()
        await client.cancel(sticky)
        await settle(client)
        await eventually(lambda: not len(place.house.feed))
        assert (await gauges(client))["turnkeeper_streams"] == 0


async def test_status_names_who_holds_a_slot_while_it_waits(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", slots=3, sticky_slots=1) as place:
        client = place.client
        resumable = await client.create("answer", script([ASK]), **INTERACTIVE)
        await client.settled(resumable)
        first, *others = [await client.create("answer", script([ASK]), **STICKY) for _ in range(3)]
        run = await client.settled(first)
        told = await status(client)
        assert told == {
            "version": __version__,
            "status": "ready",
            "started_at": instant(place.house.since),
            "slots": {"total": 3, "busy": 1, "free": 2, "waiting": 1, "sticky_total": 1, "sticky": 1},
            "queue": {"length": 2, "sticky": 2},
            "runs": {
                "queued": 2,
                "running": 0,
                "waiting_user": 2,
                "succeeded": 0,
                "failed": 0,
                "canceled": 0,
            },
            "held": [
                {
                    "run_id": first,
                    "skill_id": "answer",
                    "engine": "demo",
                    "pending_interaction_id": 1,
                    "since": run["updated_at"],
                    "wait_deadline_at": run["wait_deadline_at"],
                }
            ],
            "held_count": 1,
            "storage": told["storage"],
            "sandbox": {"mode": "off", "effective": "off", "reason": told["sandbox"]["reason"]},
        }
        assert told["storage"]["free_bytes"] > told["storage"]["min_free_bytes"] == 256 * 1024 * 1024
        assert told["storage"]["low"] is False
        assert run["wait_deadline_at"] is not None
        await client.cancel(first)
        await client.ended(first)
        await client.settled(others[0])
        told = await status(client)
        assert [run["run_id"] for run in told["held"]] == others[:1]
        assert told["queue"] == {"length": 1, "sticky": 1}


async def test_status_tells_of_a_hundred_at_most(tmp_path: Path) -> None:
    async with wiring.running(settings_for(tmp_path / "data")) as service:
        store, client = service.house.store, Client(service.url)
        waiting = [await sample.place(store, sample.bare(State.WAITING_USER, lease="a")) for _ in range(103)]
        told = await status(client)
        await client.http.aclose()
    assert told["held_count"] == 103
    assert [run["run_id"] for run in told["held"]] == [run.id for run in waiting[:100]]


async def test_status_needs_the_token_and_says_when_it_stops(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as place:
        refused = await place.client.http.get("/v1/status", headers={"Authorization": ""})
        assert_problem(refused, 401, Code.UNAUTHORIZED)
        place.house.begin_stop()
        assert (await status(place.client))["status"] == "stopping"


def test_small_answers_are_sent_at_once(tmp_path: Path) -> None:
    """The event loop switches Nagle's delay off only for a socket that says that it is TCP."""
    with closing(wiring._listen(settings_for(tmp_path))) as listener:
        assert listener.proto == socket.IPPROTO_TCP


async def test_all_skills_are_listed(client: Client) -> None:
    listed = (await client.http.get("/v1/skills")).json()["skills"]
    assert [skill["id"] for skill in listed] == sorted(path.name for path in SKILLS.iterdir())
    assert all(skill["problems"] == [] for skill in listed)


async def test_one_skill_and_its_schemas(client: Client) -> None:
    skill: Json = (await client.http.get("/v1/skills/typed")).json()
    assert (skill["id"], skill["version"], skill["execution_modes"]) == (
        "typed",
        "1.0.0",
        ["auto", "interactive"],
    )
    schemas: Json = (await client.http.get("/v1/skills/typed/schemas")).json()
    assert schemas["skill_id"] == "typed"
    assert schemas["input"]["required"] == ["title"]
    assert schemas["parameter"]["properties"]["depth"]["default"] == 2
    assert schemas["output"]["type"] == "object"
    plain: Json = (await client.http.get("/v1/skills/plain/schemas")).json()
    assert [plain[kind] for kind in ("input", "parameter", "output")] == [None, None, None]


@pytest.mark.parametrize("path", ["/v1/skills/nobody", "/v1/skills/nobody/schemas", "/v1/skills/..%2fskills"])
async def test_unknown_skill(client: Client, path: str) -> None:
    answer = await client.http.get(path)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


async def test_new_skill_is_there_without_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "skills"
    async with opened(tmp_path / "data", skills_dir=(folder,)) as place:
        assert (await place.client.http.get("/v1/skills")).json() == {"skills": []}
        (folder / "fresh").mkdir(parents=True)
        (folder / "fresh" / "SKILL.md").write_text("Say hello.")
        run_id = await place.client.create("fresh", script([{"say": "hello"}]))
        await place.client.settled(run_id)
        assert (await place.client.result(run_id))["text"] == "hello"


async def test_engines_say_whether_they_are_ready(client: Client, place: Place) -> None:
    listed = (await client.http.get("/v1/engines")).json()["engines"]
    assert [engine["name"] for engine in listed] == list(place.house.engines)
    demo = (await client.http.get("/v1/engines/demo")).json()
    assert demo in listed
    assert demo["ready"] is True
    assert demo["profiles"] == ["resumable", "sticky_process"]
    assert [engine["name"] for engine in listed if engine["default"]] == []
    for engine in listed:
        assert engine["ready"] or (engine["reason"] and engine["fix"])
    assert_problem(await client.http.get("/v1/engines/nobody"), 404, Code.ENGINE_NOT_FOUND)


class TestIdle:
    """When a service may go that was started for one command."""

    async def test_whoever_comes_while_it_looks_is_stayed_for(self) -> None:
        traffic, looks = Traffic(), 0

        async def is_idle() -> bool:
            nonlocal looks
            looks += 1
            if looks == 1:
                with traffic.counted():
                    pass
            return True

        await traffic.ceased(0.05, is_idle)
        assert looks == 2
        assert traffic.quiet_sec >= 0.05

    async def test_a_disk_in_trouble_is_no_reason_to_go(self) -> None:
        answers: list[bool | Exception] = [StorageUnavailable("the disk"), False, True]

        async def is_idle() -> bool:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        await Traffic().ceased(0.01, is_idle)
        assert answers == []


async def test_app_can_be_made_twice(place: Place) -> None:
    """For one house: what the routes need is in the app, not in their modules."""
    assert (
        make_app(place.house, place.service.door).openapi()
        == make_app(place.house, place.service.door).openapi()
    )
