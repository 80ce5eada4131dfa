"""What a client makes of answers that no service of ours gives, or only on a bad day. A small server plays them."""

from __future__ import annotations

import json
import math
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from turnkeeper import beacon
from turnkeeper.client import ApiError, AsyncClient, Client, ClientError
from turnkeeper.lock import DirectoryLock

Answer = tuple[int, dict[str, str], bytes]

SKILLS: Answer = (200, {}, b'{"skills": [], "something": "newer"}')
HTML = b"<html>Bad Gateway</html>"
RESULT: Answer = (200, {}, b'{"result": {"answer": 42}}')
LAST = {"run_id": "r", "seq": 1, "ts": "2026-01-02T03:04:05Z", "type": "conversation.completed", "data": {}}
STREAM: Answer = (200, {}, b"event: chat_event\nid: 1\ndata: %s\n\n" % json.dumps(LAST).encode())


CREATED: Answer = (200, {}, b'{"run_id": "r", "status": "queued"}')
CANCELED: Answer = (200, {}, b'{"run_id": "r", "request_id": "r", "status": "canceled", "ending": null}')


def run(status: str) -> Answer:
    times = dict.fromkeys(("created_at", "updated_at"), "2026-01-02T03:04:05Z")
    body = {"run_id": "r", "skill_id": "x", "engine": "demo", "status": status, **times}
    return 200, {}, json.dumps(body).encode()


def problem(status: int, code: str, **headers: str) -> Answer:
    body = {"code": code, "detail": "no, and why", "title": "…", "state": "odd", "errors": ["/input: no"]}
    return (
        status,
        {name.replace("_", "-"): value for name, value in headers.items()},
        json.dumps(body).encode(),
    )


@dataclass
class Stage:
    """Plays its answers one after the other, the last one again and again; keeps what it was asked."""

    answers: list[Answer]
    url: str = ""
    hear: Callable[[str], object] = bool
    """Told of every request before it is answered."""
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def next(self) -> Answer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def playing(*answers: Answer) -> Iterator[Stage]:
    stage = Stage(list(answers))

    class Handler(BaseHTTPRequestHandler):
        def play(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            stage.asked.append((f"{self.command} {self.path}", dict(self.headers.items())))
            stage.hear(self.path)
            status, headers, body = stage.next()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = play  # noqa: N815 (as the library wants it)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    stage.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield stage
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class TestAnswers:
    def test_a_refusal_that_passes_is_waited_out(self) -> None:
        with playing(problem(503, "STARTING", Retry_After="0"), (502, {}, HTML), SKILLS) as stage:
            with Client(stage.url, "token") as client:
                assert client.skills() == []
            assert len(stage.asked) == 3

    async def test_the_same_for_async_streams(self) -> None:
        with playing(problem(503, "STARTING", Retry_After="0"), (504, {}, HTML), STREAM) as stage:
            async with AsyncClient(stage.url, "token") as client:
                assert [event.seq async for event in client.job("r").events()] == [1]
            assert [headers["Last-Event-ID"] for _, headers in stage.asked] == ["0"] * 3

    def test_one_that_takes_longer_is_told(self) -> None:
        with (
            playing(problem(429, "QUEUE_FULL", Retry_After="5")) as stage,
            Client(stage.url, "token") as client,
        ):
            with pytest.raises(ApiError, match="no, and why") as refused:
                client.run("x")
            assert len(stage.asked) == 1
        error = refused.value
        assert (error.code, error.status, error.retry_after) == ("QUEUE_FULL", 429, 5)
        assert (error.errors, error.facts) == (["/input: no"], {"state": "odd"})

    def test_a_result_is_waited_for_like_the_end_of_its_run(self) -> None:
        away = problem(503, "STORAGE_UNAVAILABLE", Retry_After="2")
        with playing(run("succeeded"), away, RESULT) as stage, Client(stage.url, "token") as client:
            assert client.job("r").result() == {"answer": 42}

    def test_as_long_as_it_takes(self) -> None:
        with playing(run("running")) as stage, Client(stage.url, "token") as client:
            client.job("r").info(wait=math.inf)
            ((_, headers),) = stage.asked
        assert headers["Prefer"] == "wait=60"

    def test_what_cannot_be_sent_twice_is_not(self, tmp_path: Path) -> None:
        (tmp_path / "SKILL.md").write_text("---\nname: x\ndescription: x\n---\n")
        with playing((502, {}, HTML), SKILLS) as stage, Client(stage.url, "token") as client:
            with pytest.raises(ApiError, match=r"answer was 502.* does the service stand at that address\?"):
                client.install_skill(tmp_path)
            assert len(stage.asked) == 1

    @pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"skills": 5}', b"{}", b""])
    def test_nonsense(self, body: bytes) -> None:
        with (
            playing((200, {}, body)) as stage,
            Client(stage.url, "token") as client,
            pytest.raises(ClientError, match="not understood"),
        ):
            client.skills()

    def test_nobody_is_followed_elsewhere(self) -> None:
        with playing(SKILLS) as elsewhere, playing((307, {"Location": elsewhere.url}, b"")) as stage:
            with Client(stage.url, "token") as client, pytest.raises(ApiError) as refused:
                client.skills()
            assert refused.value.code == "HTTP_307"
            assert elsewhere.asked == []


@pytest.mark.parametrize(
    ("name", "value"), [("SSL_CERT_FILE", "/nowhere"), ("ALL_PROXY", "nonsense://127.0.0.1")]
)
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_an_environment_that_cannot_be_used(
    monkeypatch: pytest.MonkeyPatch, kind: type[Client | AsyncClient], name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ClientError, match=f"the environment names .*{name}"):
        kind("http://192.0.2.1", "some-token-of-a-service")


class TestUploads:
    """A run whose files did not come: without them it waits, and then fails."""

    def begin(self, stage: Stage, key: str | None = None) -> list[str]:
        with Client(stage.url, "token") as client, pytest.raises((ApiError, KeyboardInterrupt)):
            client.run("x", files={"paper": b"words"}, idempotency_key=key)
        return [line.rpartition("/")[2] for line, _ in stage.asked]

    def test_one_that_nobody_knows_of_is_canceled(self) -> None:
        with playing(CREATED, problem(413, "BODY_TOO_LARGE"), CANCELED) as stage:
            assert self.begin(stage) == ["jobs", "upload", "cancel"]

    def test_so_it_is_by_ctrl_c(self) -> None:
        def interrupt(path: str) -> None:
            if path.endswith("/upload"):
                os.kill(os.getpid(), signal.SIGINT)

        with playing(CREATED, CANCELED) as stage:
            stage.hear = interrupt
            assert self.begin(stage) == ["jobs", "upload", "cancel"]

    def test_one_with_a_key_is_come_back_to(self) -> None:
        with playing(CREATED, problem(413, "BODY_TOO_LARGE")) as stage:
            assert self.begin(stage, "order 17") == ["jobs", "upload"]

    async def test_one_with_a_key_that_takes_no_files_any_more(self) -> None:
        with playing(CREATED, problem(409, "UPLOAD_NOT_EXPECTED"), run("canceled")) as stage:
            async with AsyncClient(stage.url, "token") as client:
                with pytest.raises(ApiError) as refused:
                    await client.run("x", files={"paper": b"words"}, idempotency_key="order 17")
            assert refused.value.code == "UPLOAD_NOT_EXPECTED"


class TestRequests:
    def test_what_is_sent(self) -> None:
        with playing(SKILLS) as stage, Client(stage.url + "/below/", "a-token") as client:
            client.skills()
            ((line, headers),) = stage.asked
        assert line == "GET /below/v1/skills"
        assert headers["Authorization"] == "Bearer a-token"
        assert f"http://{headers['Host']}" == stage.url

    def test_a_service_that_was_found_is_called_localhost(self, tmp_path: Path) -> None:
        """It may listen on an address that it does not answer for."""
        lock = DirectoryLock(tmp_path)
        try:
            (tmp_path / beacon.TOKEN).write_text("kept-token\n")
            with playing(SKILLS) as stage:
                here = beacon.Beacon(
                    url=stage.url, pid=os.getpid(), version="0", started_at=datetime.now(UTC)
                )
                with beacon.lit(tmp_path, here), Client(data_dir=tmp_path) as client:
                    client.skills()
                ((_, headers),) = stage.asked
        finally:
            lock.release()
        assert (headers["Host"], headers["Authorization"]) == ("localhost", "Bearer kept-token")
