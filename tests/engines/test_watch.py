"""The limits of a turn: what counts as life, and which limit is reached first."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tests.engines.processes import Engine, engine, python, soon
from turnkeeper.core.run import Timeouts
from turnkeeper.engines.census import Pulse
from turnkeeper.engines.watch import Limit, Watch, has_worked


async def first_limit(it: Engine, limits: Timeouts, started_at: float | None = None) -> tuple[Limit, float]:
    loop = asyncio.get_running_loop()
    with Watch(it.process, limits, started_at=started_at) as watch:
        begun = loop.time()
        return await soon(watch.over), loop.time() - begun


LIMITS = Timeouts(first_byte_sec=0.4, idle_sec=0.6, turn_sec=1.5)


@pytest.mark.failure("T01", "T08")
@pytest.mark.parametrize(
    ("code", "limit", "after"),
    [
        ("time.sleep(60)", Limit.FIRST_BYTE, 0.4),
        ("print('one'); time.sleep(60)", Limit.IDLE, 0.6),
        ("while True: os.write(2, b'.'); time.sleep(0.05)", Limit.TURN, 1.5),
    ],
)
async def test_three_limits(tmp_path: Path, code: str, limit: Limit, after: float) -> None:
    async with engine(tmp_path, *python("sys.stdin.readline()\n" + code)) as it:
        it.process.write(b"go\n")
        reached, seconds = await first_limit(it, LIMITS)
        assert reached is limit
        assert after - 0.01 < seconds


@pytest.mark.failure("T01")
async def test_bytes_before_the_turn_do_not_count(tmp_path: Path) -> None:
    async with engine(
        tmp_path, *python("print('hello'); sys.stdin.readline(); print('again'); time.sleep(60)")
    ) as it:
        await it.says(b"hello")
        now = asyncio.get_running_loop().time()
        assert (await first_limit(it, LIMITS, started_at=now))[0] is Limit.FIRST_BYTE
        with Watch(it.process, LIMITS) as watch:
            it.process.write(b"go\n")
            assert await soon(watch.over) is Limit.IDLE


class Still:
    """An engine that prints nothing; at each look it has used so much more of the processor."""

    last_byte_at: float | None = None

    def __init__(self, cpu_sec: float) -> None:
        self._cpu_sec = cpu_sec
        self.looks = 0

    async def pulse(self) -> Pulse:
        self.looks += 1
        return replace(ASLEEP, cpu_sec=self.looks * self._cpu_sec)


ASLEEP = Pulse(frozenset({(1, 1)}), 0.0, ("engine",))


async def test_a_turn_that_began_earlier() -> None:
    now = asyncio.get_running_loop().time()
    assert await soon(Watch(Still(0), Timeouts(), started_at=now - 3600).over) is Limit.TURN


@pytest.mark.failure("T01")
async def test_a_silence_is_not_judged_by_one_look() -> None:
    """The loop may have been blocked for long: without a look before there is nothing to compare with."""
    still = Still(0)
    now = asyncio.get_running_loop().time()
    with Watch(still, Timeouts(first_byte_sec=0.2), started_at=now - 5) as watch:
        assert await soon(watch.over) is Limit.FIRST_BYTE
    assert still.looks >= 2
    assert watch.alive == ("engine",)


@pytest.mark.failure("B01", "P08")
@pytest.mark.parametrize(
    ("cpu_sec", "limit"), [(0, Limit.FIRST_BYTE), (0.001, Limit.FIRST_BYTE), (1, Limit.TURN)]
)
async def test_work_counts_as_life(cpu_sec: float, limit: Limit) -> None:
    with Watch(Still(cpu_sec), Timeouts(first_byte_sec=0.2, turn_sec=0.8)) as watch:
        assert await soon(watch.over) is limit


@pytest.mark.failure("B01")
@pytest.mark.parametrize(
    ("after", "is_work"),
    [
        (ASLEEP, False),
        (replace(ASLEEP, cpu_sec=0.4), False),  # 4 % of ten seconds: timers and polling
        (replace(ASLEEP, cpu_sec=0.5), True),
        (replace(ASLEEP, members=frozenset()), True),
        (replace(ASLEEP, members=frozenset({(1, 1), (2, 2)})), True),
        (replace(ASLEEP, members=frozenset({(1, 2)})), True),  # the same pid, another process
    ],
)
def test_what_is_work(after: Pulse, is_work: bool) -> None:
    assert has_worked((10.0, ASLEEP), (20.0, after)) is is_work


@pytest.mark.parametrize(
    ("seconds", "needed"), [(0.1, 0.025), (1, 0.25), (2, 0.5), (5, 0.5), (10, 0.5), (30, 1.5), (150, 7.5)]
)
def test_more_is_needed_between_looks_that_are_close_together(seconds: float, needed: float) -> None:
    for used, is_work in ((needed * 0.99, False), (needed * 1.01, True)):
        assert has_worked((0.0, ASLEEP), (seconds, replace(ASLEEP, cpu_sec=used))) is is_work


BUSY_SEC = 3
BUSY = f"""
until = time.monotonic() + {BUSY_SEC}
while time.monotonic() < until: pass
print(time.process_time(), 'done', sep='\\n')
"""
CHILD = f"import time{BUSY}"
FAIR_SHARE = 0.6
"""Of a processor: with less the machine was too busy to show anything, and is asked again."""


@pytest.mark.failure("B01")
@pytest.mark.parametrize(
    "code",
    [BUSY, f"subprocess.run([sys.executable, '-c', {CHILD!r}], start_new_session=True)"],
    ids=["itself", "a child of it"],
)
async def test_whoever_computes_in_silence_is_left_alone(tmp_path: Path, code: str) -> None:
    limits = Timeouts(first_byte_sec=1.6, idle_sec=30, turn_sec=60)
    is_left_alone, share = False, 0.0
    for _ in range(5):
        async with engine(tmp_path, *python(code)) as it:
            with Watch(it.process, limits) as watch:
                await it.says(b"done")
                is_left_alone = not watch.over.done()
            share = float(it.said()[0]) / BUSY_SEC
        if is_left_alone or share > FAIR_SHARE:
            break
    assert is_left_alone, f"it used {share:.0%} of a processor"


@pytest.mark.failure("T01")
async def test_a_question_that_cannot_be_looked_for_does_not_keep_the_limit_from_its_work() -> None:
    def stumble() -> None:
        raise RuntimeError("a dialect that cannot bear what it is shown")

    with Watch(Still(0), Timeouts(first_byte_sec=0.2, turn_sec=30), on_silence=stumble) as watch:
        assert await soon(watch.over) is Limit.FIRST_BYTE


@pytest.mark.failure("T02")
async def test_closed_watch_stays_silent() -> None:
    watch = Watch(Still(0), Timeouts(first_byte_sec=0.02))
    watch.close()
    assert watch.over.cancelled()
