"""Every call to the disk, the database, the kernel or the network fails once: the first, the second, … Each time a
whole story is told, until one meets no failure. A typed refusal or success, nothing lost, nothing left, and the next
story goes well on the same service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import count
from pathlib import Path

import pytest

from tests.faults import scenarios
from tests.faults.failing import Failing, Trip
from tests.faults.scenarios import Lane, Scenario
from tests.faults.wire import wired
from tests.harness import TOKEN, Clock, Place, opened, settings_for
from turnkeeper.client import AsyncClient
from turnkeeper.core.errors import Code, SettingsInvalid, TurnkeeperError
from turnkeeper.engines import census
from turnkeeper.wiring import own_token, running

LANES = 4
"""Services that share the numbers among them: some failures are waited out, and others go on meanwhile."""

STORIES: dict[str, Scenario] = {
    "talk": scenarios.talk,
    "stay": scenarios.stay,
    "upload": scenarios.upload,
    "install": scenarios.install,
    "fetch": scenarios.fetch,
    "cancel": scenarios.cancel,
}
WRAP: dict[str, Callable[[Failing], None]] = {
    "file": Failing.of_files,
    "sqlite": Failing.of_sqlite,
    "spawn": Failing.of_spawns,
    "socket": lambda failing: None,
}
CALLS = {
    "file": {"talk": 40, "stay": 30, "upload": 35, "install": 25, "fetch": 30, "cancel": 20},
    "sqlite": {"talk": 40, "stay": 35, "upload": 20, "fetch": 20, "cancel": 20},
    "spawn": {"talk": 2, "stay": 1},
    "socket": {"talk": 15, "upload": 8, "install": 4, "fetch": 12, "cancel": 8},
}
"""What fails, and how many such calls each story has at least."""
AT_THE_START = frozenset({Code.STORAGE_UNAVAILABLE, Code.SETTINGS_INVALID})


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Failing:
    return Failing(monkeypatch)


class Numbers:
    """Of the call that fails: counts up until a story has met no failure."""

    def __init__(self) -> None:
        self._untouched: list[int] = []
        self._all = count(1)

    def __iter__(self) -> Iterator[int]:
        while not self._untouched:
            yield next(self._all)

    def told(self, number: int, trip: Trip) -> None:
        trip.disarm()
        if trip.tripped is None:
            self._untouched.append(number)

    @property
    def failed(self) -> int:
        return min(self._untouched) - 1


async def each_call(folder: Path, tell: Callable[[Numbers, Path], Awaitable[None]]) -> int:
    """How many calls have failed, each in a story of its own."""
    numbers = Numbers()
    async with asyncio.TaskGroup() as lanes:
        for name in range(LANES):
            (folder / str(name)).mkdir()
            lanes.create_task(tell(numbers, folder / str(name)))  # type: ignore[arg-type]
    return numbers.failed


@pytest.mark.failure("V03", "V05", "S04", "B18")
@pytest.mark.parametrize(("kind", "story"), [(kind, story) for kind in CALLS for story in CALLS[kind]])
async def test_each_call(kind: str, story: str, tmp_path: Path, failing: Failing) -> None:
    WRAP[kind](failing)

    async def tell(numbers: Numbers, folder: Path) -> None:
        async with AsyncExitStack() as stack:
            trip = stack.enter_context(failing.trip(folder / "data"))
            place = await stack.enter_async_context(opened(folder / "data", slots=1))
            url = place.service.url
            if kind == "socket":
                url = await stack.enter_async_context(wired(url, trip))
            client = await stack.enter_async_context(AsyncClient(url, TOKEN))
            lane = Lane(place, client, trip, folder)
            for number in numbers:
                trip.arm(number)
                await STORIES[story](lane)
                await lane.at_rest()
                numbers.told(number, trip)

    failed = await each_call(tmp_path, tell)
    assert failed >= CALLS[kind][story]


@pytest.mark.failure("V03", "V04")
def test_each_call_of_the_first_token(tmp_path: Path, failing: Failing) -> None:
    """A token that could not be written whole is not there: the next start makes one."""
    failing.of_files()
    numbers = Numbers()
    with failing.trip(tmp_path) as trip:
        for number in numbers:
            data_dir = tmp_path / str(number)
            data_dir.mkdir()
            trip.arm(number)
            with suppress(SettingsInvalid):
                own_token(data_dir)
            numbers.told(number, trip)
            token = own_token(data_dir)
            assert (len(token) > 16, own_token(data_dir)) == (True, token)
    assert numbers.failed >= 3


@asynccontextmanager
async def started(folder: Path, trip: Trip) -> AsyncIterator[Lane]:
    """As `opened`; the start and the stop of the service are counted, what lies between them is not."""
    settings, clock = settings_for(folder / "data", slots=1), Clock()
    async with running(settings, clock=clock) as service, AsyncClient(service.url, TOKEN) as client:
        place = Place(service, clock, settings)
        with trip.looked_at():
            yield Lane(place, client, trip, folder)
            await place.assert_sound()
            await place.client.http.aclose()
    assert not census.find(service.house.store.data_id)


@pytest.mark.failure("V03", "V04", "V05")
@pytest.mark.parametrize(("kind", "fewest"), [("file", 5), ("sqlite", 15)])
async def test_each_call_of_a_restart(kind: str, fewest: int, tmp_path: Path, failing: Failing) -> None:
    """A start that cannot be is refused with a code, and the next finds everything that was accepted."""
    WRAP[kind](failing)

    async def tell(numbers: Numbers, folder: Path) -> None:
        waiting: str | None = None
        with failing.trip(folder / "data") as trip:
            for number in numbers:
                refused: TurnkeeperError | None = None
                trip.arm(number)
                try:
                    async with started(folder, trip) as lane:
                        waiting = await scenarios.go_on(lane, waiting)
                        await lane.at_rest()
                except TurnkeeperError as error:
                    refused = error
                assert refused is None or (trip.tripped and refused.code in AT_THE_START), refused
                numbers.told(number, trip)

    failed = await each_call(tmp_path, tell)
    assert failed >= fewest
