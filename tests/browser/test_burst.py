"""Events that come without a pause do not keep the page from showing the run as it is."""

from __future__ import annotations

import asyncio

from tests.browser.desk import Desk
from tests.harness import PATIENCE

# As often as a stream may tell of the run, until the page has asked for it again.
ENDLESS_BURST = """
async () => {
  const { LiveRun } = await import("/static/run/live.js");
  let asked = 0;
  class Counted extends LiveRun {
    async refresh() {
      asked += 1;
    }
  }
  const run = new Counted("any");
  while (asked < 2) {
    run._refreshSoon();
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
"""


async def test_a_burst_that_does_not_end_is_not_waited_for(desk: Desk) -> None:
    page = await desk.open("/")
    async with asyncio.timeout(PATIENCE):
        await page.evaluate(ENDLESS_BURST)
