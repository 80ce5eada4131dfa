"""The page says of a run what the service says, whatever its engine did."""

from __future__ import annotations

import asyncio

from playwright.async_api import expect

from tests.browser.desk import Desk
from tests.browser.run_page import RunPage
from tests.harness import PATIENCE, Client, Json

BRISK: Json = {"first_byte_sec": 2, "idle_sec": 2}
SCRIPTS = (
    "chaos/banners",
    "chaos/broken_bytes",
    "chaos/closed_twice",
    "chaos/context_full",
    "chaos/empty_message",
    "chaos/exit_at_once",
    "chaos/forged_events",
    "chaos/fused_torn_line",
    "chaos/killed",
    "chaos/marker_then_question",
    "chaos/no_session",
    "chaos/plan_used_up",
    "chaos/stdout_closed",
    "chaos/terminal_noise",
    "chaos/tool_never_returns",
    "chaos/tool_server_dead",
    "chaos/trust_question",
    "chaos/words_after_the_end",
)


async def played(client: Client, script: str) -> Json:
    run_id = await client.create(script=script, execution_mode="interactive", timeouts=BRISK)
    return await client.settled(run_id)


async def test_page_and_service_say_the_same(desk: Desk, client: Client) -> None:
    runs = await asyncio.gather(*(played(client, script) for script in SCRIPTS))
    assert {run["status"] for run in runs} == {"succeeded", "failed", "waiting_user"}
    page = await desk.open("/")
    for run in runs:
        await page.goto(f"{desk.place.service.url}/#/runs/{run['run_id']}")
        shown = RunPage(page)
        await expect(page.get_by_test_id("status-line")).to_be_visible(timeout=PATIENCE * 1000)
        await shown.reaches(run["status"])
        if run["error"] is not None:
            await expect(shown.outcome).to_contain_text(run["error"]["code"])
            await expect(shown.outcome).to_contain_text(run["error"]["message"])
        if run["status"] == "waiting_user":
            await shown.asks(run["pending_interaction_id"])
