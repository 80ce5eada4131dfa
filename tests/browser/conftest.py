"""One Chromium for all tests of a worker, a service and a desk for each of them."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.browser import chromium
from tests.browser.desk import Desk
from tests.harness import PATIENCE, Client, Place, opened
from tests.harness import SKILLS as FAKE_SKILLS
from tests.spec.scripts import Latch

SKIPPED = "no browser was run: "
EXAMPLES = Path(__file__).parents[2] / "examples" / "skills"
OWN = Path(__file__).parent / "skills"
SKILLS = (EXAMPLES, OWN, FAKE_SKILLS)

FAILED = pytest.StashKey[bool]()

expect.set_options(timeout=PATIENCE * 1000)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """In a wrapper: what is written here comes last."""
    yield
    reports = terminalreporter.stats.get("skipped", [])
    told = {report.longrepr[2] for report in reports if isinstance(report.longrepr, tuple)}
    for reason in sorted(reason for reason in told if SKIPPED in reason):
        terminalreporter.write_sep("!", reason.removeprefix("Skipped: "), red=True, bold=True)


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    path = chromium.find()
    if path is None:
        pytest.skip(f"{SKIPPED}{chromium.ADVICE}")
    async with chromium.launched(path) as browser:
        yield browser


@pytest.fixture
async def place(browser: Browser, tmp_path: Path) -> AsyncIterator[Place]:
    async with opened(tmp_path / "data", skills_dir=SKILLS, slots=3) as place:
        yield place


@pytest.fixture
def client(place: Place) -> Client:
    return place.client


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """So that fixtures know at their end how the test went."""
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


@pytest.fixture
async def desk(browser: Browser, place: Place, request: pytest.FixtureRequest) -> AsyncIterator[Desk]:
    desk = Desk(browser, place)
    yield desk
    if request.node.stash.get(FAILED, False):
        await _keep_pictures(desk, request.node.name)
    await desk.leave()
    desk.assert_clean()


async def _keep_pictures(desk: Desk, name: str) -> None:
    """What each tab showed when the test failed; pytest shows the paths below it."""
    folder = Path(tempfile.mkdtemp(prefix=f"{re.sub(r'[^a-z0-9]+', '-', name.lower())}."))
    pages = [page for visitor in desk.visitors for page in visitor.context.pages]
    for number, page in enumerate(pages, 1):
        await page.screenshot(path=folder / f"{number}.png")
        sys.stdout.write(f"a picture of {page.url} is in {folder / f'{number}.png'}\n")


@pytest.fixture
def latch(tmp_path: Path) -> Latch:
    return Latch(tmp_path)
