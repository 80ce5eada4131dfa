"""The feed holds no truth: it is quick, it is bounded, and whoever fell behind can tell."""

from __future__ import annotations

import asyncio

import pytest

from tests.harness import Client, Json, Place
from turnkeeper.runtime.feed import BACKLOG, Feed
from turnkeeper.store.base import LogEntry, Notice


def notice(*numbers: int, run_id: str = "run") -> Notice:
    return Notice(run_id, tuple(LogEntry(seq, "assistant.reasoning", b"{}") for seq in numbers))


async def test_news_reach_those_who_listen_to_that_run() -> None:
    feed = Feed()
    with feed.subscribe("run") as first, feed.subscribe("run") as second, feed.subscribe("other") as other:
        assert len(feed) == 3
        feed.publish(notice(1, 2))
        feed.publish(notice(3))
        for subscriber in (first, second):
            assert await subscriber.wait(1)
            assert [entry.seq for entry in subscriber.take()] == [1, 2, 3]
            assert subscriber.take() == []
        assert not await other.wait(0)
    assert len(feed) == 0


async def test_silence_is_told_and_news_wake_at_once() -> None:
    feed = Feed()
    with feed.subscribe("run") as subscriber:
        assert not await subscriber.wait(0)
        waiting = asyncio.ensure_future(subscriber.wait(30))
        await asyncio.sleep(0)
        feed.publish(notice(1))
        async with asyncio.timeout(5):
            assert await waiting
        assert not await subscriber.wait(0)


async def test_one_timer_serves_many_waits() -> None:
    """A silence is told also behind news, and behind a wait that would have been longer."""
    feed = Feed()
    with feed.subscribe("run") as subscriber:
        for seq in range(1, 4):
            feed.publish(notice(seq))
            assert await subscriber.wait(60)
        assert not await subscriber.wait(0.001)
        waiting = asyncio.ensure_future(subscriber.wait(60))
        await asyncio.sleep(0)
        feed.publish(notice(4))
        assert await waiting
        assert not await subscriber.wait(0.001)
        assert [entry.seq for entry in subscriber.take(after=2)] == [3, 4]


@pytest.mark.failure("E04")
async def test_a_slow_subscriber_is_bounded_and_sees_that_it_fell_behind() -> None:
    feed = Feed()
    with feed.subscribe("run") as slow:
        for seq in range(1, 100_001):
            feed.publish(notice(seq))
        kept = [entry.seq for entry in slow.take()]
        assert len(kept) <= BACKLOG
        # What is left is the end of the log, without a hole; that it does not begin with 1 tells the rest.
        assert kept == list(range(kept[0], 100_001))
        feed.publish(notice(100_001))
        assert [entry.seq for entry in slow.take()] == [100_001]


async def test_one_notice_that_is_larger_than_the_backlog_is_read_from_the_store() -> None:
    feed = Feed()
    with feed.subscribe("run") as subscriber:
        feed.publish(notice(*range(1, BACKLOG + 2)))
        assert await subscriber.wait(1)  # there is news, and it is not here
        assert subscriber.take() == []


async def test_a_stop_is_told_to_everybody() -> None:
    feed = Feed()
    with feed.subscribe("run") as first, feed.subscribe("other") as second:
        waiting = asyncio.ensure_future(first.wait(30))
        await asyncio.sleep(0)
        feed.close()
        async with asyncio.timeout(5):
            assert await waiting
        assert first.is_closed
        assert second.is_closed


@pytest.mark.failure("E04", "B15")
async def test_a_client_that_does_not_read_loses_nothing_and_holds_nobody_up(place: Place) -> None:
    """More than any socket takes in is said while one client looks away; then it reads on."""
    steps: list[Json] = [{"think": "{{parameter.words}}"}] * 700
    script = {"turns": [[*steps, {"result": {"answer": "42"}}]]}
    run_id = await place.client.create(parameter={"demo_script": script, "words": "x" * 20_000})
    slow = Client(place.service.url)
    try:
        stream = slow.follow(run_id)
        heard = [await anext(stream)]
        assert (await place.client.ended(run_id))["status"] == "succeeded"
        heard += [event async for event in stream]
    finally:
        await slow.http.aclose()
    assert heard == await place.client.events(run_id)
    assert len(heard) > 700
    assert len(place.house.feed) == 0
