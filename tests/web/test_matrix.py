"""Every call × every key, out of the API's own description: who may come in does, and nobody else."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, cast

import httpx
import pytest
from starlette.routing import Mount, Route

from tests.harness import DOOR, Client, Json, Place, let_in, opened
from tests.web.keyholders import holder, holding, made, revoked
from tests.web.patience import settle
from tests.web.problems import assert_problem
from tests.web.requests import waiting
from turnkeeper.core.access import Asked, Caller, Scope
from turnkeeper.core.errors import Code
from turnkeeper.runtime.house import House
from turnkeeper.web import calls
from turnkeeper.web.app import make_app
from turnkeeper.web.guard import is_open
from turnkeeper.web.rules import ANY, LINK, RULES, Rule

DESCRIBED: Json = make_app(cast(House, None), DOOR).openapi()
OPERATIONS: list[tuple[str, str, Json]] = [
    (method.upper(), path, operation)
    for path, methods in DESCRIBED["paths"].items()
    for method, operation in methods.items()
]
NAMES = {"attempt": "1", "try_number": "1", "stream": "stdout", "path": "a.txt"}
UNDESCRIBED = {("GET", "/"), ("GET", "/v1/openapi.json")}
"""The page, and the description itself."""


def is_for_links(described: Json) -> bool:
    return bool(described["security"] == [{"link": []}])


def named(operation: tuple[str, str, Json]) -> str:
    return f"{operation[0]} {operation[1]}"


each_operation = pytest.mark.parametrize(
    ("method", "path", "described"), OPERATIONS, ids=map(named, OPERATIONS)
)
RUN = "/v1/jobs/{run_id}"
FOR = {
    "read": {
        *("GET /metrics", "GET /v1/status", "GET /v1/skills", "GET /v1/skills/{skill_id}", "GET /v1/engines"),
        *("GET /v1/skills/{skill_id}/schemas", "GET /v1/skills/{skill_id}/lint", "GET /v1/engines/{name}"),
        *("GET /v1/jobs", f"GET {RUN}", f"GET {RUN}/interaction/pending", f"GET {RUN}/interaction/history"),
        *(f"GET {RUN}/request", f"GET {RUN}/attempts", f"GET {RUN}/events", f"GET {RUN}/events/history"),
        *(f"GET {RUN}/result", f"GET {RUN}/artifacts", f"GET {RUN}/artifacts/{{path}}", f"GET {RUN}/bundle"),
        *(f"GET {RUN}/logs", f"GET {RUN}/logs/{{attempt}}/{{try_number}}/{{stream}}"),
    },
    "run": {"POST /v1/jobs", f"GET {RUN}", f"GET {RUN}/result", f"POST {RUN}/upload", f"POST {RUN}/cancel"},
    "answer": {
        *("GET /v1/jobs", f"GET {RUN}", f"GET {RUN}/interaction/pending"),
        *(f"POST {RUN}/interaction/reply", f"POST {RUN}/interaction/links"),
    },
}
"""As it was meant: written down here once more, so that nobody is let in by a slip in the table."""
FOR_ANYBODY_KNOWN = {"GET /v1/me", "POST /v1/session/codes"}
FOR_STRANGERS = {"GET /healthz", "GET /readyz", "POST /v1/session", "DELETE /v1/session"}
FOR_LINKS = {"GET /v1/answer", "POST /v1/answer"}

WITH_A_RUN = [each for each in OPERATIONS if "{run_id}" in each[1]]
each_with_a_run = pytest.mark.parametrize(
    ("method", "path", "described"), WITH_A_RUN, ids=map(named, WITH_A_RUN)
)


Holders = dict[str, Client]
"""By what their key is good for."""


@pytest.fixture(scope="module")
async def holders(place: Place) -> AsyncIterator[Holders]:
    # Who may not come in comes from an address of their own: together they ask more often than one stranger may.
    async with AsyncExitStack() as stack:
        clients: Holders = {
            scope.value: await stack.enter_async_context(holder(place, scope.value)) for scope in Scope
        }
        clients["nobody"] = await stack.enter_async_context(
            holding(place, "not-a-token-nor-a-key", "127.0.0.2")
        )
        gone = await made(place, "admin")
        clients["revoked"] = await stack.enter_async_context(holding(place, gone["key"], "127.0.0.3"))
        assert (await revoked(place, gone)).status_code == 200
        short = await made(place, "admin", expires_in_sec=1)
        clients["expired"] = await stack.enter_async_context(holding(place, short["key"], "127.0.0.4"))
        place.clock.advance(2)
        yield clients


async def asked(client: Client, method: str, path: str, **names: str) -> httpx.Response:
    """About what is not there, and without a body: whoever is let in does no harm."""
    known = {"run_id": "nobody", "skill_id": "nobody", "name": "nobody", "key_id": "nobody"} | NAMES | names
    return await client.http.request(method, path.format_map(known))


@each_operation
async def test_who_may_call_it(holders: Holders, method: str, path: str, described: Json) -> None:
    for name, client in holders.items():
        answer = await asked(client, method, path)
        if is_open(path):
            assert answer.status_code not in (401, 403), name
        elif name in ("nobody", "revoked", "expired"):
            code = {"revoked": Code.KEY_REVOKED, "expired": Code.KEY_EXPIRED}.get(name, Code.UNAUTHORIZED)
            assert_problem(answer, 401, code)
        elif name in described["x-scopes"]:
            assert answer.status_code not in (401, 403), f"{name}: {answer.text}"
            assert answer.status_code < 500, f"{name}: {answer.text}"
        elif is_for_links(described):
            assert_problem(answer, 403, Code.LINK_NOT_FOR_THIS)
        else:
            problem = assert_problem(answer, 403, Code.SCOPE_MISSING)
            assert (problem["needs"], problem["has"]) == (described["x-scopes"], [name])
            assert all(scope in problem["detail"] for scope in (*described["x-scopes"], name))


@each_operation
def test_admin_may_do_everything_and_strangers_nothing(method: str, path: str, described: Json) -> None:
    rule = RULES[method, path.replace("{path}", "{path:file}")]
    assert rule.by_link == is_for_links(described)
    assert (described["x-scopes"] == []) == (is_open(path) or rule.by_link)
    assert is_open(path) or rule.by_link or "admin" in described["x-scopes"]
    assert rule.is_open == is_open(path)


def test_the_scopes_are_those_that_were_meant() -> None:
    for method, path, described in OPERATIONS:
        call = f"{method} {path}"
        if call in FOR_STRANGERS | FOR_LINKS:
            assert described["x-scopes"] == [], call
            continue
        meant = {scope for scope, calls in FOR.items() if call in calls or call in FOR_ANYBODY_KNOWN}
        assert set(described["x-scopes"]) == meant | {"admin"}, call


def test_nothing_is_served_beside_the_rules() -> None:
    """Neither a plain route nor a mount, which ask for no rule: but for the files of the page."""
    app = make_app(cast(House, None), DOOR)
    plain = [route for route in app.routes if not isinstance(route, calls.Route | Mount)]
    assert [cast(Route, route).path for route in plain] == ["/v1/openapi.json"]
    assert [route.path for route in app.routes if isinstance(route, Mount)] == ["/static"]


def test_every_route_has_a_rule_and_every_rule_a_route() -> None:
    ruled = {(method, template.replace("{path:file}", "{path}")) for method, template in RULES}
    assert ruled == {(method, path) for method, path, _ in OPERATIONS} | UNDESCRIBED


async def test_the_description_is_for_whoever_is_known(holders: Holders) -> None:
    for name, client in holders.items():
        answer = await client.http.get("/v1/openapi.json")
        assert answer.status_code == (200 if name in list(Scope) else 401), name


async def test_a_route_without_a_rule_is_refused() -> None:
    app = make_app(cast(House, None), DOOR)
    called = []

    @app.post("/v1/jobs/{run_id}/new-thing")
    async def new_thing(run_id: str) -> None:
        called.append(run_id)

    async with httpx.AsyncClient(transport=httpx.ASGITransport(let_in(app)), base_url="http://test") as http:
        problem = assert_problem(await http.post("/v1/jobs/x/new-thing"), 403, Code.SCOPE_MISSING)
    assert "has no rule" in problem["detail"]
    assert called == []


async def test_a_route_that_hides_another_is_refused() -> None:
    """The rule of the one must not let anybody into the other."""
    app = make_app(cast(House, None), DOOR)
    called = []

    @app.get("/{anything:path}")
    async def all_of_it(anything: str) -> None:
        called.append(anything)

    app.router.routes.insert(0, app.router.routes.pop())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(let_in(app)), base_url="http://test") as http:
        assert_problem(await http.get("/healthz"), 403, Code.SCOPE_MISSING)
    assert called == []


@pytest.mark.parametrize("rule", sorted({*RULES.values()} - {LINK}, key=repr))
def test_a_link_is_good_for_nothing_that_keys_are(rule: Rule) -> None:
    link = Caller(by="link", scopes=frozenset(), asked=Asked(run_id="r", interaction_id=1))
    mighty = Caller(by="link", asked=Asked(run_id="r", interaction_id=1))
    assert not rule.admits(link)
    assert not rule.admits(mighty)
    assert LINK.admits(link)
    assert not LINK.admits(Caller(by="token"))
    assert ANY.admits(Caller(by="key:x", scopes=frozenset({Scope.ANSWER})))


# limits


class Limited:
    """Keys that know one skill, or one engine, and a run of each kind."""

    def __init__(self, owner: Client, of_skill: Client, of_engine: Client, foreign: str, own: str) -> None:
        self.owner = owner
        self.of_skill = of_skill
        self.of_engine = of_engine
        self.foreign = foreign
        self.own = own


@pytest.fixture(scope="module")
async def limited(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Limited]:
    async with opened(tmp_path_factory.mktemp("limited") / "data") as place:
        everything = ("read", "run", "answer")
        async with (
            holder(place, *everything, skills=["plain"]) as of_skill,
            holder(place, *everything, engines=["codex"]) as of_engine,
        ):
            foreign = await waiting(place.client)
            own = await waiting(place.client, skill="plain")
            yield Limited(place.client, of_skill, of_engine, foreign, own)
            await settle(place.client)


BODIES: dict[str, dict[str, Any]] = {
    "/v1/jobs/{run_id}/interaction/reply": {"json": {"interaction_id": 1, "response": "mine"}},
    "/v1/jobs/{run_id}/interaction/links": {"json": {"for": "me"}},
    "/v1/jobs/{run_id}/upload": {"files": {"file": b"zip"}},
}


@each_with_a_run
async def test_a_run_of_another_skill_or_engine_is_not_there(
    limited: Limited, method: str, path: str, described: Json
) -> None:
    for client in (limited.of_skill, limited.of_engine):
        told = []
        for run_id in (limited.foreign, "0" * 32):
            address = path.format_map({"run_id": run_id} | NAMES)
            answer = await client.http.request(method, address, **BODIES.get(path, {}))
            problem = assert_problem(answer, 404, Code.RUN_NOT_FOUND)
            told.append({name: str(value).replace(run_id, "ID") for name, value in problem.items()})
        assert told[0] == told[1], "one can tell a run that is hidden from one that is not"
    left = await limited.owner.get(limited.foreign)
    assert (left["status"], left["pending_interaction_id"]) == ("waiting_user", 1)


@each_with_a_run
async def test_a_run_of_its_own_skill_is(limited: Limited, method: str, path: str, described: Json) -> None:
    if method != "GET" or path.endswith("/events"):
        return  # what changes it, or does not end by itself
    answer = await limited.of_skill.http.get(path.format_map({"run_id": limited.own} | NAMES))
    assert answer.status_code in (200, 404, 409)
    if answer.status_code == 404:
        assert answer.json()["code"] == "FILE_NOT_FOUND"


def test_the_rules_tell_runs_by_the_name_that_is_looked_for() -> None:
    """Whatever stands behind `/v1/jobs/` in a path is a run, and is called `run_id`."""
    for _, template in RULES:
        for name in re.findall(r"^/v1/jobs/{(\w+)}", template):
            assert name == "run_id"
