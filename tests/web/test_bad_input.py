"""Every bad input gets a whole problem document with a stable code, and changes nothing at all.

`bad_requests` is the overview, one row for each way to be wrong. What is left for here needs more than one request.
A full queue has its test beside idempotency keys, other hosts and tokens theirs beside the guard.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest

from tests.harness import PATIENCE, TOKEN, Client, Daemon, Json, Place, opened
from tests.skills.hostile import BOMBS, KINDS, NAMES, ROTTEN, TWICE, Hostile
from tests.spec.scripts import ASK, INTERACTIVE, script
from tests.web.bad_requests import EVERY, UPLOAD, Bad
from tests.web.patience import eventually
from tests.web.problems import assert_problem
from tests.web.requests import DONE, JOB, post, waiting
from turnkeeper.core.errors import Code
from turnkeeper.web.guard import MAX_BODY
from turnkeeper.web.problems import status_of

MIB = 1024 * 1024


@pytest.fixture(scope="module")
async def runs(client: Client) -> AsyncIterator[dict[str, str]]:
    """None of them moves by itself."""
    ended = await client.create("answer", script([ASK], [DONE]), **INTERACTIVE)
    await client.settled(ended)
    await client.reply(ended, "blue")
    assert (await client.settled(ended))["status"] == "succeeded"
    held = await client.create("filed", script([DONE]), input={"title": "Bees"})
    yield {"asking": await waiting(client, [DONE]), "ended": ended, "held": held}
    await client.cancel(held)


async def send(client: Client, bad: Bad, runs: dict[str, str]) -> httpx.Response:
    """By its path as it is; nothing is tidied up on the way."""
    target = bad.path.format(**runs).encode()
    return await client.http.request(
        bad.method,
        "/",
        content=bad.content or None,
        files=bad.files,
        headers=[(name.encode(), _bytes(value)) for name, value in bad.headers.items()],
        extensions={"target": target},
    )


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


async def everything(place: Place) -> Json:
    """All that a refused request could have left behind."""
    http = place.client.http
    return {
        "runs": (await http.get("/v1/jobs", params={"limit": 200})).json(),
        "skills": (await http.get("/v1/skills")).json(),
        "changes": place.house.store.stats.changes,
        "files": sorted(str(path) for path in place.settings.data_dir.rglob("*") if not path.is_dir()),
    }


@pytest.mark.parametrize("bad", EVERY, ids=lambda bad: bad.what)
async def test_refused_and_nothing_changes(
    place: Place, client: Client, runs: dict[str, str], bad: Bad
) -> None:
    before = await everything(place)
    answer = await send(client, bad, runs)
    assert_problem(answer, status_of(bad.code), bad.code)
    assert len(answer.content) < 20_000, "an answer is there to be read"
    assert await everything(place) == before


@pytest.mark.parametrize(
    "archives",
    [
        pytest.param(NAMES, marks=pytest.mark.failure("A01"), id="names"),
        pytest.param(KINDS, marks=pytest.mark.failure("A02"), id="kinds"),
        pytest.param(BOMBS, marks=pytest.mark.failure("A03"), id="bombs"),
        pytest.param(ROTTEN, marks=pytest.mark.failure("A04"), id="rotten"),
        pytest.param(TWICE, marks=pytest.mark.failure("A05"), id="twice"),
    ],
)
async def test_hostile_upload_leaves_nothing(
    place: Place, client: Client, runs: dict[str, str], archives: dict[str, Hostile]
) -> None:
    before = await everything(place)
    for name, archive in archives.items():
        bad = Bad(name, Code.ARCHIVE_REFUSED, UPLOAD, files={"file": ("a.zip", archive.data)})
        problem = assert_problem(await send(client, bad, runs), 400, Code.ARCHIVE_REFUSED)
        assert archive.words in problem["detail"], name
    assert await everything(place) == before


class TestTypes:
    """Every field of a body, with every kind of value that the description of the API does not allow there."""

    VALUES: tuple[Any, ...] = (
        None,
        True,
        False,
        0,
        -1,
        1,
        1.5,
        1e300,
        "",
        "x",
        "1",
        "true",
        "\0",
        [],
        ["x"],
        {},
        {"a": 1},
    )

    @pytest.fixture(scope="class")
    async def described(self, client: Client) -> Json:
        return dict((await client.http.get("/v1/openapi.json")).json()["components"])

    @pytest.mark.parametrize(
        ("shape", "place_of"),
        [("CreateJob", ()), ("Options", ("runtime_options",)), ("TimeoutsIn", ("timeouts",))],
    )
    async def test_of_a_job(
        self, place: Place, client: Client, described: Json, shape: str, place_of: tuple[str, ...]
    ) -> None:
        before = await everything(place)
        for name, value in self.wrong(described, shape):
            body = JOB | ({place_of[0]: {name: value}} if place_of else {name: value})
            await self.assert_refused(client, "/v1/jobs", body)
        assert await everything(place) == before

    async def test_of_a_reply(
        self, place: Place, client: Client, runs: dict[str, str], described: Json
    ) -> None:
        before = await everything(place)
        for name, value in self.wrong(described, "Reply"):
            body = {"interaction_id": 1, "response": "x", name: value}
            await self.assert_refused(client, f"/v1/jobs/{runs['asking']}/interaction/reply", body)
        assert await everything(place) == before

    def wrong(self, described: Json, shape: str) -> list[tuple[str, Any]]:
        found = []
        for name, schema in described["schemas"][shape]["properties"].items():
            validator = jsonschema_rs.Draft202012Validator(schema | {"components": described})
            found += [(name, value) for value in self.VALUES if not validator.is_valid(value)]
        assert len(found) > 20
        return found

    async def assert_refused(self, client: Client, path: str, body: Json) -> None:
        answer = await client.http.post(path, json=body)
        assert answer.status_code == 400, f"{body}: {answer.text}"
        code = Code(answer.json()["code"])
        assert code in (Code.INVALID_REQUEST, Code.UNKNOWN_FIELD), body
        assert_problem(answer, 400, code)


@pytest.mark.failure("H05")
@pytest.mark.parametrize(
    "words",
    ["\0", "a\0b", "\x01\x02\x1b[2J\x7f\x9f", "\ufeff\ufffe\uffff", "a\r\r\nb", "\U0010ffff"],
    ids=repr,
)
async def test_reply_may_be_binary(client: Client, tmp_path: Path, words: str) -> None:
    """It is data, and reaches the engine as it is."""
    heard = tmp_path / "heard.json"
    run_id = await waiting(client, [{"record": str(heard)}, DONE])
    assert (await client.post_reply(run_id, 1, words)).status_code == 200
    assert (await client.settled(run_id))["status"] == "succeeded"
    assert json.loads(heard.read_bytes())["prompt"] == words
    assert [each["response"] for each in await client.history(run_id)] == [words]


def broken_skills() -> dict[str, dict[str, str]]:
    schemas = {kind: f"assets/{kind}.json" for kind in ("input", "output")}
    runner = {"assets/runner.json": json.dumps({"schemas": schemas}), "assets/input.json": "{}"}
    return {
        "runner-cut-off": {"assets/runner.json": "{"},
        "runner-no-object": {"assets/runner.json": "[]"},
        "runner-of-odd-values": {
            "assets/runner.json": '{"max_attempt": "three", "execution_modes": ["manual"]}'
        },
        "schema-missing": runner,
        "schema-cut-off": runner | {"assets/output.json": "{"},
        "schema-of-odd-type": runner | {"assets/output.json": '{"type": "thing"}'},
        "schema-elsewhere": runner | {"assets/output.json": '{"$ref": "https://evil.example/schema.json"}'},
    }


async def test_broken_skills_are_named_and_the_others_work(tmp_path: Path) -> None:
    folder, broken = tmp_path / "skills", broken_skills()
    for name, files in (broken | {"good": {}}).items():
        for path, text in ({"SKILL.md": "Do it."} | files).items():
            (folder / name / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / name / path).write_text(text)
    async with opened(tmp_path / "data", skills_dir=(folder,)) as place:
        before = await everything(place)
        listed = {skill["id"]: skill["problems"] for skill in before["skills"]["skills"]}
        assert sorted(listed) == sorted([*broken, "good"])
        for name in broken:
            assert listed[name], name
            for answer in (
                await post(place.client, JOB | {"skill_id": name}),
                await place.client.http.get(f"/v1/skills/{name}"),
                await place.client.http.get(f"/v1/skills/{name}/schemas"),
            ):
                assert assert_problem(answer, 400, Code.SKILL_BROKEN)["problems"] == listed[name]
        assert await everything(place) == before
        assert listed["good"] == []
        run_id = await place.client.create("good", script([{"say": "hello"}]))
        assert (await place.client.settled(run_id))["status"] == "succeeded"


class TestSize:
    """However much is sent and however it is framed: refused, and never held in memory."""

    LIMIT_MB = 64

    @pytest.fixture(scope="class")
    async def daemon(self, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Daemon]:
        daemon = Daemon(tmp_path_factory.mktemp("size") / "data")
        daemon.start()
        yield daemon
        assert await daemon.stop() == 0

    @pytest.mark.parametrize("framing", ["declared", "chunked"])
    @pytest.mark.parametrize("path", ["/v1/jobs", "/v1/jobs/{held}/interaction/reply", UPLOAD, "/v1/skills"])
    async def test_100_megabytes(self, daemon: Daemon, path: str, framing: str) -> None:
        client = daemon.client
        held = await client.create("filed", "done", input={"title": "Bees"})
        before, peak = await client.get(held), self.peak_mb(daemon)
        is_upload = path in (UPLOAD, "/v1/skills")
        headers = {"Content-Type": "multipart/form-data; boundary=B" if is_upload else "application/json"}
        if framing == "declared":
            headers["Content-Length"] = str(100 * MIB)
        answer = await client.http.post(path.format(held=held), content=self.pieces(), headers=headers)
        problem = assert_problem(answer, 413, Code.BODY_TOO_LARGE)
        assert str(self.LIMIT_MB * MIB if is_upload else MAX_BODY) in problem["detail"]
        assert await client.get(held) == before
        assert self.peak_mb(daemon) - peak < 32
        await client.cancel(held)

    @staticmethod
    async def pieces() -> AsyncIterator[bytes]:
        head = b'--B\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'
        yield head + b" " * (MIB - len(head))
        for _ in range(99):
            yield b" " * MIB

    @staticmethod
    def peak_mb(daemon: Daemon) -> int:
        status = Path(f"/proc/{daemon.pid}/status").read_text()
        (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
        return int(line.split()[1]) // 1024

    async def test_nothing_is_left_of_it(self, place: Place, client: Client, runs: dict[str, str]) -> None:
        before = await everything(place)
        for path in (UPLOAD, "/v1/skills"):
            url = path.format(**runs)
            headers = {"Content-Type": "multipart/form-data; boundary=B"}
            answer = await client.http.post(url, content=self.pieces(), headers=headers)
            assert_problem(answer, 413, Code.BODY_TOO_LARGE)
        assert await everything(place) == before


class TestWire:
    """What is hardly HTTP, or none: a plain 400 and a closed connection, or the call as far as it makes sense."""

    HEAD = f"Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"

    @pytest.mark.parametrize(
        "request_text",
        [
            f"GET /v1/jobs HTTP/1.1\r\n{HEAD}Host: localhost\r\n\r\n",
            f"GET /v1/jobs HTTP/1.1\r\n{HEAD}X-Long: {'x' * MIB}\r\n\r\n",
            f"GET /v1/jobs?engine={'x' * MIB} HTTP/1.1\r\n{HEAD}\r\n",
            f"GET /v1/jobs HTTP/1.1\r\n{HEAD}X: \0\r\n\r\n",
            f"GET /v1/jobs/\xff HTTP/1.1\r\n{HEAD}\r\n",
            f"POST /v1/jobs HTTP/1.1\r\n{HEAD}Content-Length: -5\r\n\r\n",
            f"POST /v1/jobs HTTP/1.1\r\n{HEAD}Content-Length: {'9' * 5000}\r\n\r\n",
            f"POST /v1/jobs HTTP/1.1\r\n{HEAD}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{{}}",
            f"POST /v1/jobs HTTP/1.1\r\n{HEAD}Transfer-Encoding: gzip\r\n\r\n",
            f"POST /v1/jobs HTTP/1.1\r\n{HEAD}Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
            "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n",
            "GET /\r\n\r\n",
        ],
        ids=[
            "two hosts",
            "header of a megabyte",
            "address of a megabyte",
            "NUL in a header",
            "bare byte in the address",
            "negative length",
            "length of 5000 digits",
            "two lengths",
            "unknown encoding",
            "chunk of no size",
            "TLS",
            "HTTP 0.9",
        ],
    )
    async def test_what_is_no_http_is_shown_the_door(self, place: Place, request_text: str) -> None:
        before = await everything(place)
        said = await self.spoken(place, request_text.encode("latin-1"))
        is_refused = said[:13] in (b"HTTP/1.1 400 ", b"HTTP/1.1 414 ", b"HTTP/1.1 431 ")
        assert said == b"" or is_refused, "closed in the middle of what it was sending"
        assert b"Traceback" not in said
        assert await everything(place) == before

    @pytest.mark.parametrize("path", [UPLOAD, "/v1/skills", "/v1/jobs"])
    async def test_who_hangs_up_in_the_middle_is_no_fault_of_ours(
        self, place: Place, runs: dict[str, str], caplog: pytest.LogCaptureFixture, path: str
    ) -> None:
        before, busy = await everything(place), len(asyncio.all_tasks())
        kind = "application/json" if path == "/v1/jobs" else "multipart/form-data; boundary=B"
        head = f"POST {path.format(**runs)} HTTP/1.1\r\n{self.HEAD}Content-Type: {kind}\r\n"
        begun = '--B\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\nPK'
        _, writer = await self.connected(place)
        writer.write(f"{head}Content-Length: 5000\r\n\r\n{begun}".encode())
        await eventually(lambda: len(asyncio.all_tasks()) > busy)
        writer.close()
        await eventually(lambda: len(asyncio.all_tasks()) <= busy)
        assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
        assert await everything(place) == before

    async def spoken(self, place: Place, request: bytes) -> bytes:
        """All that is answered until the other side closes; nothing if it does so while it is being spoken to."""
        reader, writer = await self.connected(place)
        try:
            async with asyncio.timeout(PATIENCE):
                writer.write(request)
                return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()

    @staticmethod
    async def connected(place: Place) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", httpx.URL(place.service.url).port)


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/skills", "/healthz"])
async def test_head_is_refused_without_a_body(client: Client, path: str) -> None:
    answer = await client.http.head(path)
    assert (answer.status_code, answer.content) == (405, b"")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/jobs", "GET, POST"),
        ("/v1/skills", "GET, POST"),
        ("/v1/skills/answer", "DELETE, GET"),
        ("/v1/jobs/some-run/cancel", "POST"),
        ("/v1/jobs/some-run/artifacts/a/b", "GET"),
        ("/", "GET"),
    ],
)
async def test_every_method_that_would_do_is_named(client: Client, path: str, allowed: str) -> None:
    answer = await client.http.request("OPTIONS", path)
    assert_problem(answer, 405, Code.METHOD_NOT_ALLOWED)
    assert answer.headers["allow"] == allowed
