"""How often somebody may ask: buckets that fill up again, one for each, and not too many of them."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import TOKEN, Client, opened
from tests.spec.scripts import INTERACTIVE
from tests.web.problems import assert_problem
from turnkeeper.core.errors import Code
from turnkeeper.web.rates import BURST_SEC, Buckets, Rates, retry_after


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


async def test_a_caller_that_asks_too_often_is_told_when_to_come_back(tmp_path: Path) -> None:
    rate = 0.2
    async with opened(tmp_path / "data", rate_limit=rate) as place:
        allowed = int(rate * BURST_SEC)
        for _ in range(allowed):
            assert (await place.client.http.get("/v1/status")).status_code == 200
        refused = await place.client.post_job("answer", "done", **INTERACTIVE)
        assert_problem(refused, 429, Code.RATE_LIMITED)
        assert 1 <= int(refused.headers["retry-after"]) <= 5
        # Whoever has no key is not to blame, and the page can always be loaded.
        async with httpx.AsyncClient(base_url=place.service.url, trust_env=False) as other:
            assert (await other.get("/")).status_code == 200
            assert (await other.get("/v1/jobs")).status_code == 401
        assert (await place.client.http.get("/healthz")).status_code == 200
        runs = await place.house.store.counts()
        assert not any(runs.values()), "nothing was done"
        # `opened` looks at the service once more, which this bucket would refuse.
        place.client = _Unlimited(place.client)


class _Unlimited(Client):
    """For the end of a test: it has nothing to look at."""

    def __init__(self, client: Client) -> None:
        self.http = client.http

    async def runs(self) -> list[dict[str, object]]:
        return []


async def test_guessing_is_slow(tmp_path: Path) -> None:
    async with (
        opened(tmp_path / "data", rate_limit=0) as place,
        httpx.AsyncClient(base_url=place.service.url, trust_env=False) as stranger,
    ):
        guesses = [
            await stranger.get("/v1/jobs", headers={"Authorization": f"Bearer {n}"}) for n in range(150)
        ]
        told = [answer.status_code for answer in guesses]
        assert set(told) == {401, 429}
        assert told[:100] == [401] * 100
        by_code = await stranger.post("/v1/session", json={"code": "guess"})
        by_address = await stranger.get("/", params={"token": "guess"})
        right = await stranger.get("/", params={"token": TOKEN})
        for answer in (by_code, by_address, right):
            assert answer.status_code in (401, 400, 429)
        assert (await stranger.get("/")).status_code == 200, "the page itself is for everybody"
        assert (await place.client.http.get("/v1/jobs")).status_code == 200, (
            "nor is who has the token held up"
        )
