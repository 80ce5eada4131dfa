"""The log as pages: the same story as the stream."""

from __future__ import annotations

import pytest

from tests.harness import Client, Json
from tests.spec.scripts import script
from tests.web.problems import assert_problem
from tests.web.sse import everything, log_of
from turnkeeper.core.errors import Code


@pytest.mark.parametrize("limit", [1, 2, 7, 1000])
async def test_pages_are_the_stream(client: Client, told: tuple[str, list[Json]], limit: int) -> None:
    run_id, log = told
    found: list[Json] = []
    start = 1
    while start is not None:
        params = {"from_seq": start, "limit": limit}
        page = (await client.http.get(f"/v1/jobs/{run_id}/events/history", params=params)).json()
        assert (page["request_id"], page["last_seq"]) == (run_id, len(log))
        assert len(page["events"]) <= limit
        found += page["events"]
        start = page["next_from_seq"]
    assert found == log == log_of(await everything(client, run_id))


async def test_both_ends_are_included(client: Client, told: tuple[str, list[Json]]) -> None:
    run_id, log = told
    for first, last in ((1, 1), (2, 5), (len(log), len(log)), (3, 10_000)):
        params = {"from_seq": first, "to_seq": last}
        page = (await client.http.get(f"/v1/jobs/{run_id}/events/history", params=params)).json()
        assert page["events"] == log[first - 1 : last]
        assert page["next_from_seq"] is None


async def test_page_inside_a_range_goes_on_to_its_end(client: Client, told: tuple[str, list[Json]]) -> None:
    run_id, _ = told
    params = {"from_seq": 2, "to_seq": 5, "limit": 3}
    page = (await client.http.get(f"/v1/jobs/{run_id}/events/history", params=params)).json()
    assert page["next_from_seq"] == 5


@pytest.mark.parametrize("params", [{"from_seq": 5, "to_seq": 4}, {"from_seq": 10_000}])
async def test_empty_range_is_an_empty_page(
    client: Client, told: tuple[str, list[Json]], params: Json
) -> None:
    run_id, log = told
    page = (await client.http.get(f"/v1/jobs/{run_id}/events/history", params=params)).json()
    assert page == {"request_id": run_id, "events": [], "last_seq": len(log), "next_from_seq": None}


@pytest.mark.parametrize(
    "params",
    [
        {"from_seq": 0},
        {"from_seq": "x"},
        {"to_seq": 0},
        {"limit": 0},
        {"limit": 1001},
        {"from_seq": 2**63},
    ],
)
async def test_wrong_range_is_refused(client: Client, told: tuple[str, list[Json]], params: Json) -> None:
    answer = await client.http.get(f"/v1/jobs/{told[0]}/events/history", params=params)
    assert_problem(answer, 400, Code.INVALID_REQUEST)


async def test_page_of_a_run_under_way_never_tells_more_than_it_knows_of(client: Client) -> None:
    thoughts = [{"think": f"thought {n}"} for n in range(300)]
    run_id = await client.create("answer", script([*thoughts, {"result": {"answer": "x"}}]))
    found: list[Json] = []
    while not found or found[-1]["type"] != "conversation.completed":
        params = {"from_seq": len(found) + 1, "limit": 50}
        page = (await client.http.get(f"/v1/jobs/{run_id}/events/history", params=params)).json()
        found += page["events"]
        assert page["last_seq"] >= len(found)
        assert page["next_from_seq"] == (
            len(found) + 1 if len(found) < page["last_seq"] and page["events"] else None
        )
    assert found == await client.events(run_id)
