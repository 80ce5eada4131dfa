"""The form of a new run: every kind of field, errors at their places, files, and what is remembered."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.async_api import FilePayload, Locator, Page, Route, expect

from tests.browser.desk import Desk, arrive
from tests.browser.run_page import opened
from tests.harness import Client

RUN_ADDRESS = re.compile(r"#/runs/[0-9a-f]+$")
TIDES: FilePayload = {"name": "paper.md", "mimeType": "text/markdown", "buffer": b"# Tides\n"}


def field(page: Page, name: str) -> Locator:
    return page.get_by_role("textbox", name=name, exact=True)


async def start(page: Page) -> None:
    await page.get_by_role("button", name="Start the run").click()


async def test_every_kind_of_field_is_sent_as_the_schema_wants_it(desk: Desk, client: Client) -> None:
    page = await desk.open("/new?skill=fields&engine=demo")
    await field(page, "Topic").fill("Lighthouses")
    await field(page, "Story").fill("Two\nlines")
    await field(page, "Copies").fill("3")
    await field(page, "Ratio").fill("0.5")
    await page.get_by_role("checkbox", name="Agrees").check()
    await page.get_by_role("group", name="Urgent").get_by_label("No", exact=True).check()
    await page.get_by_role("group", name="Colour").get_by_label("green").check()
    await page.get_by_label("Country").select_option("Japan")
    await field(page, "Day").fill("2026-03-01")
    await field(page, "Mail").fill("ada@example.org")
    await field(page, "Code").fill("AB-123")
    await page.get_by_role("button", name="Add to Tags").click()
    await field(page, "Tags 1").fill("sea")
    await page.get_by_role("group", name="Days").get_by_label("Tue").check()
    await page.get_by_role("button", name="Add to People").click()
    await field(page, "Name").fill("Grace")
    await field(page, "Age").fill("36")
    await page.get_by_role("button", name="Add to Labels").click()
    await field(page, "Name of field 1").fill("shelf")
    await field(page, "Value of shelf").fill("B4")
    await page.get_by_role("button", name="Fill in: Size").click()
    await field(page, "Width").fill("12")
    await field(page, "Either").fill("[1, 2]")
    await page.get_by_role("radio", name="demo").check()
    await start(page)
    await expect(page).to_have_url(RUN_ADDRESS)
    run_id = page.url.rpartition("/")[2]
    request = (await client.http.get(f"/v1/jobs/{run_id}/request")).json()
    assert request["input"] == {
        "topic": "Lighthouses",
        "story": "Two\nlines",
        "copies": 3,
        "ratio": 0.5,
        "agrees": True,
        "urgent": False,
        "colour": "green",
        "country": "Japan",
        "day": "2026-03-01",
        "mail": "ada@example.org",
        "code": "AB-123",
        "tags": ["sea"],
        "days": ["Tue"],
        "people": [{"name": "Grace", "age": 36}],
        "labels": {"shelf": "B4"},
        "size": {"width": 12, "unit": "mm"},
        "either": [1, 2],
    }


async def test_errors_are_at_their_fields_before_anything_is_sent(desk: Desk) -> None:
    visitor = await desk.visitor()
    page = await visitor.open("/new?skill=fields&engine=demo")
    await field(page, "Copies").fill("12")
    await field(page, "Code").fill("nonsense")
    await start(page)
    topic = field(page, "Topic")
    await expect(topic).to_be_focused()
    await expect(topic).to_have_attribute("aria-invalid", "true")
    await expect(page.locator("[data-fault='input/topic']")).to_be_visible()
    await expect(page.locator("[data-fault='input/copies']")).to_contain_text("9")
    await expect(page.locator("[data-fault='input/code']")).to_contain_text("[A-Z]")
    summary = page.get_by_test_id("error-summary")
    await summary.get_by_role("button", name="Copies").click()
    await expect(field(page, "Copies")).to_be_focused()
    await field(page, "Copies").fill("4")
    await expect(page.locator("[data-fault='input/copies']")).to_have_count(0)
    assert "POST /v1/jobs" not in visitor.watch.calls


async def test_what_only_the_service_knows_is_told_at_the_field(desk: Desk) -> None:
    visitor = await desk.visitor()
    visitor.watch.expect("status of 400", "status of 422")
    page = await visitor.open("/new?skill=fields&engine=demo")
    await field(page, "Topic").fill("Lighthouses")
    await page.get_by_role("group", name="Colour").get_by_label("red").check()
    await field(page, "Even").fill("13")
    await page.get_by_role("radio", name="demo").check()
    await start(page)
    await expect(page.locator("[data-fault='input/even']")).to_contain_text("13")
    await expect(field(page, "Even")).to_be_focused()
    await expect(field(page, "Topic")).to_have_value("Lighthouses")
    await field(page, "Even").fill("14")
    await expect(page.locator("[data-fault='input/even']")).to_have_count(0)
    await start(page)
    await opened(page, "succeeded")


async def test_input_can_be_edited_as_json_and_back(desk: Desk) -> None:
    page = await desk.open("/new?skill=fields&engine=demo")
    await field(page, "Topic").fill("Lighthouses")
    await page.get_by_role("button", name="Edit as JSON: Input").click()
    box = page.get_by_test_id("group-input").get_by_role("textbox")
    value = json.loads(await box.input_value())
    assert value["topic"] == "Lighthouses"
    await box.fill("{")
    await expect(page.get_by_role("button", name="Back to the fields: Input")).to_be_disabled()
    await box.fill(json.dumps(value | {"tags": ["sea", "fog"]}))
    await page.get_by_role("button", name="Back to the fields: Input").click()
    await expect(field(page, "Tags 2")).to_have_value("fog")


async def test_file_is_uploaded_with_the_form(desk: Desk, tmp_path: Path) -> None:
    paper = tmp_path / "Bericht für Ada.md"
    paper.write_text("# A report\n\nThree short words.\n")
    page = await desk.open("/new?skill=document-summary&engine=demo")
    await page.get_by_role("radio", name="demo").check()
    await page.get_by_role("radio", name="Without questions").check()
    await start(page)
    await expect(page.locator("[data-fault='input/document']")).to_be_visible()
    await page.locator("input[type=file]").set_input_files(paper)
    await expect(page.get_by_text(paper.name, exact=True)).to_be_visible()
    await expect(page.locator("[data-fault='input/document']")).to_have_count(0)
    await start(page)
    run = await opened(page, "succeeded")
    await expect(run.outcome).to_contain_text("A report")
    async with page.expect_download() as download:
        await run.outcome.get_by_role("link", name="summary.md").click()
    assert "A report" in Path(await (await download.value).path()).read_text()


async def test_files_can_be_brought_to_a_run_that_waits_for_them(desk: Desk, client: Client) -> None:
    run_id = await client.create("document-summary", None)
    visitor = await desk.visitor()
    page = await visitor.open(f"/runs/{run_id}")
    run = await opened(page, "queued")
    await page.get_by_role("button", name="Upload").click()
    await expect(page.locator("[data-fault='input/document']")).to_be_visible()
    await page.locator("input[type=file]").set_input_files(TIDES)
    await expect(page.locator("[data-fault='input/document']")).to_have_count(0)
    await page.get_by_role("button", name="Upload").click()
    await run.reaches("succeeded")
    await expect(run.outcome).to_contain_text("Tides")


async def test_upload_to_a_run_that_waits_can_be_stopped_and_begun_again(desk: Desk, client: Client) -> None:
    run_id = await client.create("document-summary", None)
    visitor = await desk.visitor()
    visitor.watch.expect("ERR_")
    await visitor.context.route("**/upload", _never_arrives)
    page = await visitor.open(f"/runs/{run_id}")
    run = await opened(page, "queued")
    await page.locator("input[type=file]").set_input_files(TIDES)
    await page.get_by_role("button", name="Upload").click()
    progress = page.get_by_role("group", name="Uploading the files")
    await expect(progress).to_be_focused()
    await progress.get_by_role("button", name="Stop").click()
    await expect(page.get_by_text("paper.md", exact=True)).to_be_visible()
    await visitor.context.unroute("**/upload")
    await page.get_by_role("button", name="Upload").click()
    await run.reaches("succeeded")


async def _never_arrives(route: Route) -> None:
    """As over a line that is too slow."""


async def test_file_that_the_service_refuses_is_told_at_its_field(desk: Desk, client: Client) -> None:
    run_id = await client.create("filed", None, input={"title": "Tides"})
    visitor = await desk.visitor()
    visitor.watch.expect("status of 4")
    page = await visitor.open(f"/runs/{run_id}")
    await opened(page, "queued")
    document = page.get_by_label("Document: Choose")
    await document.set_input_files(TIDES | {"name": "paper.exe"})
    await page.get_by_role("button", name="Upload").click()
    await expect(page.locator("[data-fault='input/document']")).to_contain_text("paper.exe")
    await page.get_by_role("button", name="Remove paper.exe").click()
    await expect(document).to_be_focused()


async def test_run_that_was_given_up_is_not_started_again(desk: Desk, client: Client) -> None:
    """The form says the same as before, and means another run."""
    visitor = await desk.visitor()
    visitor.watch.expect("ERR_")
    page = await visitor.open("/new?skill=document-summary&engine=demo")
    await page.get_by_role("radio", name="demo").check()
    await page.get_by_role("radio", name="Without questions").check()
    await page.locator("input[type=file]").set_input_files(TIDES)
    await visitor.context.route("**/upload", lambda route: route.abort())
    await start(page)
    await page.get_by_role("button", name="Cancel this run and edit").click()
    await visitor.context.unroute("**/upload")
    await start(page)
    await opened(page, "succeeded")
    assert sorted(run["status"] for run in await client.runs()) == ["canceled", "succeeded"]


async def test_form_survives_a_look_elsewhere(desk: Desk) -> None:
    page = await desk.open("/new?skill=fields&engine=demo")
    await field(page, "Topic").fill("Lighthouses")
    await page.get_by_role("navigation").get_by_role("link", name="Engines").click()
    await arrive(page, "Engines")
    await page.go_back()
    await expect(field(page, "Topic")).to_have_value("Lighthouses")


async def test_double_click_starts_one_run(desk: Desk, client: Client) -> None:
    page = await desk.open("/new?skill=meeting-notes&engine=demo")
    await field(page, "Notes").fill("We ship on Friday.")
    await page.get_by_role("radio", name="demo").check()
    await page.get_by_role("button", name="Start the run").dblclick()
    await expect(page).to_have_url(RUN_ADDRESS)
    assert len(await client.runs()) == 1


@pytest.mark.parametrize("skill", ["plain", "answer"])
async def test_skill_without_a_schema_takes_anything(desk: Desk, client: Client, skill: str) -> None:
    page = await desk.open(f"/new?skill={skill}&engine=demo")
    await field(page, "Name of field 1").fill("request")
    await field(page, "Value of request").fill("Write a haiku")
    await page.get_by_role("radio", name="demo").check()
    await start(page)
    await expect(page).to_have_url(RUN_ADDRESS)
    run_id = page.url.rpartition("/")[2]
    request = (await client.http.get(f"/v1/jobs/{run_id}/request")).json()
    assert request["input"] == {"request": "Write a haiku"}


async def test_skill_that_is_not_there(desk: Desk) -> None:
    visitor = await desk.visitor()
    visitor.watch.expect("status of 404")
    page = await visitor.open("/new?skill=nobody")
    await expect(page.get_by_role("alert")).to_contain_text("nobody")
    await page.get_by_role("link", name="Choose another skill").click()
    await expect(page.get_by_role("link", name="interview")).to_be_visible()
