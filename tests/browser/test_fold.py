"""The conversation that a run shows is the same, however its log was cut into pages and live pieces."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from playwright.async_api import Page

from tests.browser.desk import Desk
from tests.browser.logs import random_cuts, random_log
from tests.harness import Client, Json
from tests.spec.scripts import INTERACTIVE

# Newer parts come first, as a reader scrolls up; the last part comes event by event, as a stream does.
FOLD_IN_PARTS = """
async (cases) => {
  const { append, empty, join } = await import("/static/run/fold.js");
  const shown = (view) => JSON.stringify(view.items.map((item) => Object.entries(item).sort()));
  const facts = (view) => JSON.stringify([view.first, view.last, view.sign, view.state]);
  const wrong = [];
  for (const [number, { log, cuts }] of cases.entries()) {
    const whole = append(empty(), log);
    const parts = [0, ...cuts].map((start, at) => log.slice(start, cuts[at] ?? log.length));
    let view = append(empty(), parts.at(-1).slice(0, 1));
    for (const event of parts.at(-1)) append(view, [event]);
    for (const part of parts.slice(0, -1).reverse()) {
      const end = view.base + view.items.length;
      view = join(append(empty(), part), view);
      if (view.base + view.items.length !== end) wrong.push(`${number}: the newest item got another number`);
    }
    if (shown(view) !== shown(whole)) wrong.push(`${number}: cut at ${cuts}:\\n${shown(view)}\\n${shown(whole)}`);
    if (facts(view) !== facts(whole)) wrong.push(`${number}: ${facts(view)} is not ${facts(whole)}`);
  }
  return wrong;
}
"""
FOLD_TWICE = """
async (log) => {
  const { append, empty } = await import("/static/run/fold.js");
  const once = append(empty(), log);
  const twice = append(append(empty(), log), log);
  return [once.items.length, twice.items.length, new Set(once.items.map((item) => item.key)).size];
}
"""


@pytest.fixture
async def page(desk: Desk) -> Page:
    return await desk.open("/")


async def wrong_folds(page: Page, cases: list[Json]) -> list[str]:
    return list(await page.evaluate(FOLD_IN_PARTS, cases))


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(random=st.randoms(use_true_random=True))
async def test_any_log_cut_anywhere(page: Page, random: Random) -> None:
    log = random_log(random)
    wrong = await wrong_folds(page, [{"log": log, "cuts": random_cuts(random, len(log))}])
    assert not wrong, wrong[0]


async def test_real_log_cut_at_every_event(page: Page, client: Client) -> None:
    run_id = await client.create("interview", None, **INTERACTIVE)
    for answer in ("A planner", "For teams", "it saves an hour a day"):
        await client.settled(run_id)
        await client.reply(run_id, answer)
    assert (await client.settled(run_id))["status"] == "succeeded"
    log = await client.events(run_id)
    assert not await wrong_folds(page, [{"log": log, "cuts": [cut]} for cut in range(1, len(log))])
    once, twice, keys = await page.evaluate(FOLD_TWICE, log)
    assert once == twice == keys
