"""How often somebody may ask: buckets that fill up again, one for each, and not too many of them."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import TOKEN, Place, settings_for
from tests.spec.scripts import INTERACTIVE
from tests.web.frozen import KNOWN, Frozen
from tests.web.problems import assert_problem
from tests.web.requests import TALK
from turnkeeper.core.errors import Code
from turnkeeper.web.rates import BURST_SEC, Buckets, Rates, retry_after
from turnkeeper.wiring import running


class TestBuckets:
    def test_a_burst_is_allowed_and_then_the_rate(self) -> None:
        buckets = Buckets(rate=2, burst=5)
        assert [buckets.take("a", 0.0) for _ in range(5)] == [0.0] * 5
        assert buckets.take("a", 0.0) == pytest.approx(0.5)
        assert buckets.take("a", 0.5) == 0.0
        assert buckets.take("a", 0.5) > 0

    def test_a_refusal_costs_nothing(self) -> None:
        """Who goes on asking while they are refused gets in as soon as who waits."""
        buckets = Buckets(rate=1, burst=1)
        buckets.take("a", 0.0)
        for _ in range(100):
            assert buckets.take("a", 0.5) > 0
        assert buckets.take("a", 1.0) == 0.0

    def test_each_has_their_own(self) -> None:
        buckets = Buckets(rate=1, burst=1)
        assert buckets.take("a", 0.0) == 0.0
        assert buckets.take("b", 0.0) == 0.0
        assert buckets.take("a", 0.0) > 0

    def test_a_long_pause_is_not_saved_up(self) -> None:
        buckets = Buckets(rate=1, burst=3)
        buckets.take("a", 0.0)
        assert [buckets.take("a", 1e9) == 0.0 for _ in range(4)] == [True, True, True, False]

    def test_memory_is_bounded_and_the_oldest_goes(self) -> None:
        buckets = Buckets(rate=1, burst=1, most=10)
        for number in range(1000):
            buckets.take(str(number), float(number) / 1000)
        assert len(buckets) == 10
        assert buckets.take("999", 1.0) > 0, "the newest is still known"

    @given(st.lists(st.floats(0, 2), max_size=200))
    def test_never_more_than_burst_and_rate_allow(self, pauses: list[float]) -> None:
        buckets, now, taken = Buckets(rate=3, burst=4), 0.0, 0
        for pause in pauses:
            now += pause
            wait = buckets.take("a", now)
            taken += not wait
            if wait:
                assert buckets.take("a", now + wait + 1e-6) == 0.0
                now, taken = now + wait + 1e-6, taken + 1
            assert taken <= 4 + 3 * now + 1e-3


def test_off_is_off() -> None:
    rates = Rates(0)
    assert all(rates.caller("a", 0.0) == 0.0 for _ in range(10_000))
    assert any(rates.stranger("1.2.3.4", 0.0) for _ in range(1000)), "strangers are slowed down all the same"


def test_strangers_of_one_network_are_one() -> None:
    """Whoever has an IPv6 address has 2**64 of them."""
    rates = Rates(0)
    for number in range(int(Rates.STRANGERS_BURST)):
        assert rates.stranger(f"2001:db8::{number:x}", 0.0) == 0.0
    assert rates.stranger("2001:db8::ffff", 0.0) > 0
    assert rates.stranger("2001:db8:0:1::1", 0.0) == 0.0
    assert rates.stranger("192.0.2.1", 0.0) == 0.0
    for _ in range(int(Rates.STRANGERS_BURST) - 1):
        rates.stranger("::ffff:192.0.2.1", 0.0)
    assert rates.stranger("192.0.2.1", 0.0) > 0, "the same machine by another spelling"


@pytest.mark.parametrize(
    ("seconds", "told"), [(0.001, "1"), (0.99, "1"), (1.0, "1"), (1.01, "2"), (59.5, "60")]
)
def test_retry_after_is_never_too_early(seconds: float, told: str) -> None:
    assert retry_after(seconds) == told


async def test_a_caller_that_asks_too_often_is_told_when_to_come_back(place: Place) -> None:
    frozen = Frozen(place, rate=0.2)
    before = await place.client.runs()
    async with frozen.client(**KNOWN) as client, frozen.client() as stranger:
        for _ in range(int(0.2 * BURST_SEC)):
            assert (await client.get("/v1/status")).status_code == 200
        refused = await client.post("/v1/jobs", json={"skill_id": "answer", "engine": "demo"})
        assert_problem(refused, 429, Code.RATE_LIMITED)
        assert refused.headers["retry-after"] == "5"
        assert await place.client.runs() == before, "nothing was done"
        # Whoever has no key is not to blame, and the page can always be loaded.
        assert (await stranger.get("/")).status_code == 200
        assert (await stranger.get("/v1/jobs")).status_code == 401
        assert (await client.get("/healthz")).status_code == 200
        frozen.now += int(refused.headers["retry-after"])
        assert (await client.get("/v1/status")).status_code == 200
        assert (await client.get("/v1/status")).status_code == 429


async def test_guessing_is_slow(place: Place) -> None:
    frozen = Frozen(place, rate=0)
    burst = int(Rates.STRANGERS_BURST)
    async with (
        frozen.client() as stranger,
        frozen.client("192.0.2.2") as other,
        frozen.client(**KNOWN) as known,
    ):
        for number in range(burst):
            answer = await stranger.get("/v1/jobs", headers={"Authorization": f"Bearer {number}"})
            assert_problem(answer, 401, Code.UNAUTHORIZED)
        assert (await stranger.post("/v1/session", json={"token": TOKEN})).status_code == 200, (
            "other guesses from there keep nobody from signing in"
        )
        for number in range(burst - 1):
            answer = await stranger.post("/v1/session", json={"token": f"guess {number}"})
            assert_problem(answer, 401, Code.UNAUTHORIZED)
        right = (
            await stranger.get("/v1/jobs", params={"token": TOKEN}),
            await stranger.get("/", params={"token": TOKEN}),
            await stranger.post("/v1/session", json={"token": TOKEN}),
        )
        for answer in (await stranger.get("/v1/jobs"), *right):
            assert_problem(answer, 429, Code.RATE_LIMITED)
            assert answer.headers["retry-after"] == "1"
        assert (await stranger.get("/")).status_code == 200, "the page itself is for everybody"
        assert (await stranger.get("/v1/jobs", headers=KNOWN)).status_code == 200, (
            "nor is who knows the token held up"
        )
        assert (await known.get("/v1/jobs")).status_code == 200
        assert (await other.get("/v1/jobs")).status_code == 401, "each where they come from"
        frozen.now += 1
        assert (await stranger.get("/v1/jobs")).status_code == 401


async def test_guessing_is_slow_also_for_who_is_known(place: Place) -> None:
    """A key for little, or a link, must not be a place to guess from."""
    frozen = Frozen(place, rate=0)
    async with frozen.client(**KNOWN) as known:
        for number in range(int(Rates.STRANGERS_BURST)):
            assert (await known.post("/v1/session", json={"token": f"guess {number}"})).status_code == 401
            assert (await known.get("/healthz", params={"token": f"guess {number}"})).status_code == 200
        for answer in (
            await known.post("/v1/session", json={"token": TOKEN}),
            await known.get("/healthz", params={"token": TOKEN}),
            await known.get("/v1/jobs", params={"token": TOKEN}),
        ):
            assert_problem(answer, 429, Code.RATE_LIMITED)
        assert (await known.get("/v1/jobs")).status_code == 200


async def test_holder_of_a_link_cannot_use_up_what_others_may_ask(place: Place) -> None:
    frozen = Frozen(place, rate=1)
    run_id = await place.client.create("answer", TALK, **INTERACTIVE)
    await place.client.settled(run_id)
    link = (await place.client.http.post(f"/v1/jobs/{run_id}/interaction/links", json={})).json()
    bearer = {"Authorization": f"Bearer {link['url'].partition('#answer=')[2]}"}
    async with frozen.client(**bearer) as somebody, frozen.client(**KNOWN) as known:
        told = [(await somebody.get("/v1/answer")).status_code for _ in range(12)]
        assert told == [200] * 10 + [429] * 2
        assert (await known.get("/v1/status")).status_code == 200


async def test_setting_reaches_the_guard(tmp_path: Path) -> None:
    """So few that no machine is too slow to ask too often."""
    settings = settings_for(tmp_path / "data", rate_limit=0.0001)
    async with running(settings) as service, httpx.AsyncClient(base_url=service.url, headers=KNOWN) as http:
        assert [(await http.get("/v1/status")).status_code for _ in range(2)] == [200, 429]


def test_a_port_behind_the_address_is_nobody_else() -> None:
    rates = Rates(0)
    for number in range(int(Rates.STRANGERS_BURST)):
        assert rates.stranger(f"192.0.2.1:{5000 + number}", 0) == 0
    assert rates.stranger("192.0.2.1", 0) > 0
    assert rates.stranger("[2001:db8::1]:443", 0) == 0
