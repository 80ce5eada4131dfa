"""The rules of following, with plain values: nothing is lost or told twice, wherever a stream is cut."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnkeeper.client.errors import (
    ApiError,
    ClientError,
    RunCanceled,
    RunFailed,
    ServiceUnreachable,
    WaitingForPerson,
)
from turnkeeper.client.following import LONGEST_SEC, Backoff, Following, Loss, Waiting
from turnkeeper.client.records import Event, Failure, Question, RunInfo
from turnkeeper.client.sse import Frame, Parser

NOW = datetime(2026, 1, 2, tzinfo=UTC)
TYPES = ["conversation.started", "assistant.reasoning", "raw.stdout", "assistant.message.final"]
LOG = [
    Event(run_id="r", seq=seq, ts=NOW, type=kind, data={"text": f"ü\u2028 \\n{seq}"})
    for seq, kind in enumerate([*TYPES, "conversation.completed"], start=1)
]
UNREACHABLE = ServiceUnreachable("it does not answer")


def stream(after: int, *, is_over: bool = True) -> bytes:
    """What the service would send to who has seen this number."""
    snapshot = b'event: snapshot\ndata: {"last_seq":%d}\n\n' % len(LOG)
    events = [
        b"event: chat_event\nid: %d\ndata: %s\n\n" % (event.seq, msgspec.json.encode(event))
        for event in LOG
        if event.seq > after
    ]
    end = b'event: end\ndata: {"status":"succeeded","last_seq":5}\n\n' if is_over else b""
    return snapshot + b"".join(events) + end


def pieces(data: bytes, sizes: list[int]) -> list[bytes]:
    """The bytes as a network would deliver them."""
    found = []
    for size in sizes:
        found.append(data[:size])
        data = data[size:]
    return [*found, data]


class TestFollowing:
    @given(cuts=st.lists(st.integers(0, 2000), max_size=6), sizes=st.lists(st.integers(1, 300), max_size=20))
    def test_nothing_lost_nothing_twice(self, cuts: list[int], sizes: list[int]) -> None:
        log, told = Following(0, Backoff(None)), list[Event]()
        for cut in [*cuts, 100_000]:
            if not log.is_over:
                log.connect()
                for chunk in pieces(stream(log.cursor)[:cut], sizes):
                    told += log.feed(chunk)
        assert told == LOG
        assert log.is_over

    def test_every_single_cut(self) -> None:
        whole = stream(0)
        for cut in range(len(whole)):
            log = Following(0, Backoff(None))
            told = list(log.feed(whole[:cut]))
            log.connect()
            told += [] if log.is_over else log.feed(stream(log.cursor))
            assert told == LOG, cut

    def test_what_was_told_before_is_not_told_again(self) -> None:
        log = Following(3, Backoff(None))
        assert list(log.feed(stream(0))) == LOG[3:]

    def test_a_run_that_has_ended_has_no_more_to_say(self) -> None:
        log = Following(5, Backoff(None))
        assert list(log.feed(stream(5))) == []
        assert log.is_over

    def test_frames_of_a_newer_service_are_passed_over(self) -> None:
        log = Following(0, Backoff(None))
        assert list(log.feed(b": comment\nretry: 5\nevent: gossip\ndata: what\n\n" + stream(0))) == LOG

    def test_something_else_answers(self) -> None:
        log = Following(0, Backoff(None))
        with pytest.raises(ClientError, match="not understood"):
            list(log.feed(b"event: chat_event\ndata: hello\n\n"))


class TestParser:
    def test_lines_of_data_are_joined_and_carriage_returns_dropped(self) -> None:
        frames = list(Parser().feed(b"event: a\r\ndata: 1\r\ndata:2\r\n\r\ndata: 3\n\nevent: b\n\ndata: x"))
        assert frames == [Frame("a", b"1\n2"), Frame("message", b"3")]


def lowest() -> float:
    return 0.0


def highest() -> float:
    return 1.0


class TestBackoff:
    @pytest.mark.parametrize("draw", [lowest, highest])
    def test_pauses_grow_up_to_a_bound(self, draw: Callable[[], float]) -> None:
        backoff, loss = Backoff(None, draw=draw), Loss(UNREACHABLE)
        pauses = [backoff.pause(loss, now=0.0) for _ in range(100)]
        assert pauses == sorted(pauses)
        assert LONGEST_SEC / 2 <= pauses[-1] <= LONGEST_SEC
        backoff.progress()
        assert backoff.pause(loss, now=0.0) == pauses[0]

    def test_patience_begins_with_the_first_loss_and_again_after_progress(self) -> None:
        backoff, loss = Backoff(10.0, draw=lowest), Loss(UNREACHABLE)
        backoff.pause(loss, now=100.0)
        assert backoff.pause(loss, now=109.99) <= 0.011, "the last try is at the end"
        backoff.progress()
        backoff.pause(loss, now=200.0)
        with pytest.raises(ServiceUnreachable):
            backoff.pause(loss, now=210.0)

    def test_a_service_may_ask_for_a_pause(self) -> None:
        busy = ApiError("SHUTTING_DOWN", "stopping", 503)
        assert Backoff(60.0).pause(Loss(busy, retry_after=7), now=0.0) == 7
        assert Backoff(None).pause(Loss(busy, retry_after=1e9), now=0.0) == 60
        with pytest.raises(ApiError):  # no patience for so long: then at once
            Backoff(5.0).pause(Loss(busy, retry_after=7), now=0.0)

    def test_a_stream_that_only_ever_says_hello_makes_no_progress(self) -> None:
        log, loss = Following(0, Backoff(10.0)), Loss(UNREACHABLE)
        log.backoff.pause(loss, now=0.0)
        list(log.feed(stream(0)[:60]))
        with pytest.raises(ServiceUnreachable):
            log.backoff.pause(loss, now=10.0)

    def test_one_with_nothing_to_say_does(self) -> None:
        log, loss = Following(4, Backoff(10.0)), Loss(UNREACHABLE)
        log.backoff.pause(loss, now=0.0)
        list(log.feed(b'event: snapshot\ndata: {"last_seq":4}\n\n'))
        log.backoff.pause(loss, now=10.0)
        list(log.feed(b'event: heartbeat\ndata: {"ts":"","last_seq":4}\n\n'))
        log.backoff.pause(loss, now=20.0)


def info(status: str, **more: object) -> RunInfo:
    plain = {"run_id": "r", "status": status, "skill_id": "s", "engine": "demo"}
    return msgspec.convert(plain | {"created_at": NOW, "updated_at": NOW} | more, RunInfo)


class TestWaiting:
    @pytest.mark.parametrize(
        ("run", "error"),
        [
            (info("failed", error=Failure(code="ENGINE_FAILED", message="oh")), RunFailed),
            (info("failed"), RunFailed),
            (info("canceled"), RunCanceled),
            (info("waiting_user", pending=Question(interaction_id=1, prompt="Well?")), WaitingForPerson),
        ],
    )
    def test_no_point_in_waiting_on(self, run: RunInfo, error: type[ClientError]) -> None:
        with pytest.raises(error):
            Waiting(None).check(run)

    @pytest.mark.parametrize("status", ["queued", "running", "waiting_user", "something_newer"])
    def test_until_time_is_up(self, status: str) -> None:
        now = 0.0
        waiting = Waiting(2.5, clock=lambda: now)
        waiting.check(info(status))
        assert (waiting.share(60), waiting.share(None), waiting.share(1)) == (2.5, 2.5, 1)
        now = 2.5
        with pytest.raises(TimeoutError, match=r"after 2\.5 s"):
            waiting.check(info(status))
        assert Waiting(None).share(60) == 60
