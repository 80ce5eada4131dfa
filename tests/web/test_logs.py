"""The raw logs: the bytes as the engine wrote them, whole or in part, and the way from an event to its words."""

from __future__ import annotations

import re
from pathlib import Path, PosixPath
from typing import Any

import pytest

from tests.harness import Client, Json, Place, wait_for_file
from tests.spec.scripts import ASK, INTERACTIVE, script
from tests.web.problems import assert_problem
from tests.web.requests import DONE
from turnkeeper.core.errors import Code
from turnkeeper.skills.workspace import RunFolder
from turnkeeper.web.files import _logs


@pytest.fixture(scope="module")
async def spoken(client: Client) -> str:
    """Two turns, with words on both streams and some that no parser understands."""
    turns = script(
        [{"raw": "Ünparsed ✓"}, {"stderr": "a complaint"}, {"think": "hm"}, ASK],
        [{"raw": "again"}, {"tool": {"name": "t", "output": "x"}}, {"stream": ["a", "b"]}, DONE],
    )
    run_id = await client.create("answer", turns, **INTERACTIVE)
    await client.settled(run_id)
    await client.reply(run_id, "blue")
    assert (await client.settled(run_id))["status"] == "succeeded"
    return run_id


async def part_of(client: Client, run_id: str, log: str, **params: int) -> bytes:
    answer = await client.http.get(f"/v1/jobs/{run_id}/logs/{log}", params=params)
    assert answer.status_code == 200, answer.text
    return answer.content


async def test_one_for_each_attempt_and_stream(client: Client, spoken: str) -> None:
    logs = (await client.http.get(f"/v1/jobs/{spoken}/logs")).json()["logs"]
    assert [(log["attempt"], log["try"], log["stream"]) for log in logs] == [
        (1, 1, "stdout"),
        (1, 1, "stderr"),
        (2, 1, "stdout"),
        (2, 1, "stderr"),
    ]
    assert [log["verdict"]["verdict"] for log in logs[::2]] == ["waiting_user", "succeeded"]
    for log in logs:
        whole = await part_of(client, spoken, f"{log['attempt']}/{log['try']}/{log['stream']}")
        assert len(whole) == log["size"]
        assert log["pid"] > 0
        assert log["started_at"] < log["ended_at"]


async def test_any_range_of_bytes(client: Client, spoken: str) -> None:
    whole = await part_of(client, spoken, "1/1/stdout")
    assert "Ünparsed ✓\n".encode() in whole
    size = len(whole)
    for offset, length in (
        (0, 1),
        (0, size),
        (5, 10),
        (size - 1, 1),
        (size - 1, 100),
        (size, 5),
        (0, 2**40),
    ):
        part = await part_of(client, spoken, "1/1/stdout", offset=offset, length=length)
        assert part == whole[offset : offset + length]
    assert await part_of(client, spoken, "1/1/stdout", offset=7) == whole[7:]


async def test_size_is_told_with_every_part(client: Client, spoken: str) -> None:
    answer = await client.http.get(f"/v1/jobs/{spoken}/logs/1/1/stderr", params={"length": 2})
    assert answer.content == b"a "
    assert answer.headers["x-log-size"] == str(len("a complaint\n"))


@pytest.mark.parametrize(
    "log", ["3/1/stdout", "1/2/stdout", "0/0/stdout", "-1/1/stdout", f"{10**30}/1/stderr"]
)
async def test_log_that_does_not_exist(client: Client, spoken: str, log: str) -> None:
    answer = await client.http.get(f"/v1/jobs/{spoken}/logs/{log}")
    assert_problem(answer, 404, Code.FILE_NOT_FOUND)


@pytest.mark.parametrize("log", ["1/1/stdin", "one/1/stdout", "1/1/..%2f..%2fskill%2fSKILL.md"])
async def test_log_that_cannot_exist(client: Client, spoken: str, log: str) -> None:
    answer = await client.http.get(f"/v1/jobs/{spoken}/logs/{log}")
    assert answer.status_code in (400, 404)
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("params", [{"offset": -1}, {"length": 0}, {"offset": "x"}, {"offset": 2**70}])
async def test_wrong_range(client: Client, spoken: str, params: Json) -> None:
    answer = await client.http.get(f"/v1/jobs/{spoken}/logs/1/1/stdout", params=params)
    assert_problem(answer, 400, Code.INVALID_REQUEST)


async def test_range_beyond_the_end_names_the_size(client: Client, spoken: str) -> None:
    answer = await client.http.get(f"/v1/jobs/{spoken}/logs/1/1/stderr", params={"offset": 13})
    assert assert_problem(answer, 404, Code.FILE_NOT_FOUND)["size"] == 12


async def test_every_reference_of_an_event_leads_to_its_words(client: Client, spoken: str) -> None:
    """Byte for byte: what was said stands where the event says, as the engine wrote it."""
    events = [event for event in await client.events(spoken) if event["raw_ref"] is not None]
    assert {event["type"] for event in events} >= {
        "assistant.message.final",
        "assistant.message.delta",
        "assistant.reasoning",
        "assistant.tool_call",
        "raw.stdout",
        "raw.stderr",
    }
    for event in events:
        ref = event["raw_ref"]
        log = f"{event['meta']['attempt']}/{ref.get('try', 1)}/{ref['stream']}"
        part = await part_of(client, spoken, log, offset=ref["offset"], length=ref["length"])
        assert len(part) == ref["length"]
        if event["type"].startswith("raw."):
            assert part.decode().rstrip("\n") == event["data"]["text"]
        else:
            assert re.fullmatch(rb'(\{"type": "[^\n]*\}\n?)+', part), part


async def test_log_grows_while_it_is_read(client: Client, tmp_path: Path) -> None:
    go, went = tmp_path / "go", tmp_path / "went"
    steps = [{"raw": "before"}, {"touch": str(went)}, {"wait_for": str(go)}, {"raw": "after"}, DONE]
    run_id = await client.create("answer", script(steps))
    await wait_for_file(went)
    early = await part_of(client, run_id, "1/1/stdout")
    assert early.endswith(b"before\n")
    go.touch()
    await client.settled(run_id)
    late = await part_of(client, run_id, "1/1/stdout", offset=len(early))
    assert late.startswith(b"after\n")


class Going(PosixPath):
    """Gone as soon as somebody has looked whether it is there."""

    def is_file(self, **how: Any) -> bool:
        is_there = super().is_file(**how)
        self.unlink(missing_ok=True)
        return is_there


async def test_log_that_is_removed_while_they_are_listed(place: Place, spoken: str, tmp_path: Path) -> None:
    """By `prune --only logs`, say: it is in the list or not, and either is an answer."""
    folder = RunFolder(Going(tmp_path))
    folder.make()
    folder.raw(1, 1, "stdout").touch()
    assert len(list(_logs(folder, await place.house.store.attempts(spoken)))) <= 1
