"""Events over bad networks and restarts: every one, once, in order. Against a real service."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.client.services import Cable, Service, serving
from tests.harness import PATIENCE
from tests.spec.scripts import ANSWER, ASK, Latch, script
from turnkeeper.client import ApiError, AsyncClient, Client, Event, Run, ServiceUnreachable

TALK = script([ASK], [ANSWER])


@pytest.fixture(scope="module")
def told(service: Service) -> tuple[str, list[Event]]:
    """A run that has ended, and its log."""
    with Client(service.url, service.token) as client:
        run = client.run("answer", "demo", parameter={"demo_script": TALK}, interactive=True)
        assert run.info(wait=30).is_waiting
        run.reply("blue")
        run.result(timeout=30)
        return run.id, list(run.history_events())


@pytest.fixture
def start(service: Service) -> Iterator[Callable[..., Cable]]:
    """A cable to the service."""
    cables: list[Cable] = []

    def plug(*cuts: int, swallow: tuple[bytes, ...] = (), is_mute: bool = False) -> Cable:
        cables.append(Cable(service.port, cuts, swallow, is_mute=is_mute).__enter__())
        return cables[-1]

    yield plug
    for cable in cables:
        cable.__exit__()


class TestCuts:
    @settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(cuts=st.lists(st.integers(1, 9000), min_size=1, max_size=3))
    def test_wherever_a_stream_is_cut(
        self, service: Service, told: tuple[str, list[Event]], cuts: list[int]
    ) -> None:
        run_id, log = told
        with Cable(service.port, cuts) as cable, Client(cable.url, service.token) as client:
            assert list(client.job(run_id).events()) == log

    async def test_the_same_for_async(
        self, service: Service, told: tuple[str, list[Event]], start: Callable[..., Cable]
    ) -> None:
        run_id, log = told
        async with AsyncClient(start(600, 1500, 3000).url, service.token) as client:
            assert [event async for event in client.job(run_id).events()] == log
            assert [event async for event in client.job(run_id).events(after=3)] == log[3:]

    def test_a_connection_that_falls_silent(
        self, service: Service, told: tuple[str, list[Event]], start: Callable[..., Cable]
    ) -> None:
        run_id, log = told
        with Client(start(2500, 100, is_mute=True).url, service.token, silence=0.3) as client:
            assert list(client.job(run_id).events()) == log

    def test_live_through_many_cuts(self, service: Service, start: Callable[..., Cable]) -> None:
        cable = start(*[1800] * 20)
        with Client(cable.url, service.token) as watcher, Client(service.url, service.token) as client:
            run = client.run("interview", "demo", interactive=True)
            seen = []
            for event in watcher.job(run.id).events():
                seen.append(event)
                if event.type == "user.input.required":
                    run.reply("words")
            assert seen == list(run.history_events())
            assert cable.connections > 2

    def test_a_number_beyond_the_log(self, client: Client, told: tuple[str, list[Event]]) -> None:
        run_id, log = told
        assert list(client.job(run_id).events(after=len(log))) == []
        with pytest.raises(ApiError) as refused:
            list(client.job(run_id).events(after=len(log) + 1))
        assert (refused.value.code, refused.value.facts["last_seq"]) == ("CURSOR_INVALID", len(log))

    def test_who_has_seen_enough_leaves(self, client: Client, told: tuple[str, list[Event]]) -> None:
        events = client.job(told[0]).events()
        assert next(events).seq == 1
        events.close()
        assert client.status().status == "ready"


class TestLostAnswers:
    """The service did what it was told, and nobody heard that."""

    def test_no_second_run(self, service: Service, client: Client, start: Callable[..., Cable]) -> None:
        cable = start(swallow=(b"POST /v1/jobs HTTP",))
        before = sum(client.status().runs.values())
        with Client(cable.url, service.token) as unlucky:
            run = unlucky.run("meeting-notes", "demo", {"notes": "x"})
            assert run.result(timeout=30)
        assert sum(client.status().runs.values()) == before + 1
        assert cable.connections > 1

    def test_no_second_reply(self, service: Service, client: Client, start: Callable[..., Cable]) -> None:
        run = client.run("answer", "demo", parameter={"demo_script": TALK}, interactive=True)
        assert run.info(wait=30).is_waiting
        with Client(start(swallow=(b"/interaction/reply",)).url, service.token) as unlucky:
            assert unlucky.job(run.id).reply("blue").interaction_id == 1
        assert run.result(timeout=30) == {"answer": "blue"}
        assert len(run.history()) == 1

    async def test_no_second_upload(self, service: Service, start: Callable[..., Cable]) -> None:
        async with AsyncClient(start(swallow=(b"/upload",)).url, service.token) as unlucky:
            run = await unlucky.run("document-summary", "demo", files={"document": b"words"})
            assert await run.result(timeout=30)

    def test_files_of_a_run_that_had_them(self, client: Client) -> None:
        def begin() -> Run:
            given = {"document": b"words"}
            return client.run("document-summary", "demo", files=given, idempotency_key="files once")

        assert begin().id == begin().id
        assert begin().result(timeout=30)

    def test_what_cannot_be_sent_twice_is_not(
        self, service: Service, client: Client, start: Callable[..., Cable], tmp_path: Path
    ) -> None:
        skill = tmp_path / "unlucky"
        skill.mkdir()
        (skill / "SKILL.md").write_text("---\nname: unlucky\ndescription: It is.\n---\nDo it.\n")
        cable = start(swallow=(b"POST /v1/skills",))
        with Client(cable.url, service.token) as unlucky:
            with pytest.raises(ServiceUnreachable, match="broke"):
                unlucky.install_skill(skill)
            assert client.skill("unlucky").managed
            client.remove_skill("unlucky")


class Follower:
    """Reads events on a thread of its own, so that a test can do something in between."""

    def __init__(self, run: Run) -> None:
        self.seen: list[Event] = []
        self.news: queue.Queue[Event | BaseException | None] = queue.Queue()
        self._thread = threading.Thread(target=self._follow, args=(run,), daemon=True)
        self._thread.start()

    def _follow(self, run: Run) -> None:
        try:
            for event in run.events():
                self.news.put(event)
            self.news.put(None)
        except Exception as error:  # noqa: BLE001 (told to the test below)
            self.news.put(error)

    def until(self, kind: str) -> None:
        while self._next() != kind:
            pass

    def finish(self) -> list[Event]:
        while self._next() is not None:
            pass
        self._thread.join(PATIENCE)
        return self.seen

    def _next(self) -> str | None:
        news = self.news.get(timeout=PATIENCE)
        if isinstance(news, BaseException):
            raise news
        if news is not None:
            self.seen.append(news)
        return news.type if news else None


class TestRestarts:
    @pytest.mark.parametrize("is_found", [True, False], ids=["found, on a new port", "given, on the same"])
    @pytest.mark.parametrize("way", ["kill", "stop"])
    def test_events_and_result_outlive_the_service(self, tmp_path: Path, way: str, is_found: bool) -> None:
        latch = Latch(tmp_path)
        with serving(tmp_path / "data") as service:
            client = Client(data_dir=service.data_dir) if is_found else Client(service.url, service.token)
            with client:
                words = [{"say": "before"}, *latch.steps, {"say": "after"}, {"result": {"answer": "x"}}]
                run = client.run("answer", "demo", parameter={"demo_script": script(words)})
                follower = Follower(run)
                follower.until("assistant.message.final")
                getattr(service, way)()
                latch.open()
                service.start(port=0 if is_found else service.port)
                assert run.result(timeout=PATIENCE) == {"answer": "x"}
                assert follower.finish() == list(run.history_events())

    def test_patience_comes_to_an_end(self, tmp_path: Path) -> None:
        latch = Latch(tmp_path)
        with serving(tmp_path / "data") as service:
            with Client(data_dir=service.data_dir, patience=0.2) as client:
                words = [{"say": "before"}, *latch.steps]
                run = client.run("answer", "demo", parameter={"demo_script": script(words)})
                follower = Follower(run)
                follower.until("assistant.message.final")
                service.kill()
                with pytest.raises(ServiceUnreachable, match="turnkeeper serve"):
                    follower.finish()
                with pytest.raises(ServiceUnreachable):
                    run.result()
            latch.open()
            service.start()  # ends what the killed one left
