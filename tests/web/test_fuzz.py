"""The API held against its own description: whatever is drawn, no answer is a fault, and none is undocumented.

schemathesis draws the requests, right and wrong ones. What is right is made to be about things that exist: left to
chance, every run would be unknown. In CI the same commit draws the same requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast
from zlib import crc32

import pytest
import requests
import schemathesis
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, settings
from schemathesis import Case, CheckContext, Response
from schemathesis.checks import not_a_server_error
from schemathesis.core.parameters import ParameterLocation
from schemathesis.specs.openapi import checks

from tests.harness import DOOR, PATIENCE, TOKEN, Client, Json, opened
from tests.skills.archives import zipped
from tests.spec.scripts import ASK, INTERACTIVE, script
from tests.web.requests import DONE
from turnkeeper.core.errors import Code
from turnkeeper.runtime.house import House
from turnkeeper.web.app import make_app

EXAMPLES = 20
"""Drawn for each call, beside those that its description suggests: each limit, each type, each missing part."""


def described() -> Json:
    """Without the token, which every request here brings: who may come in is tested beside the guard."""
    whole = make_app(cast(House, None), DOOR).openapi()
    for operations in whole["paths"].values():
        for operation in operations.values():
            del operation["security"]
    del whole["components"]["securitySchemes"]
    return whole


AnyCase = Case[Any]
schema = schemathesis.openapi.from_dict(described())


@dataclass(frozen=True)
class Known:
    """What there is, for each name in a path."""

    url: str
    http: requests.Session
    asking: str
    """Asks again after every reply."""
    ended: str
    held: tuple[str, ...]

    def names(self, path: str) -> dict[str, tuple[Any, ...]]:
        runs: tuple[str, ...] = (self.asking, self.ended, self.held[0])
        if path.endswith("/events"):
            runs = (self.ended,)  # the stream of any other would not end
        if path.endswith("/upload"):
            runs = (*self.held[:6], self.ended)
        if path.endswith("/cancel"):
            runs = (*self.held[6:], self.ended)
        return {
            "run_id": runs,
            "path": ("report.txt", "sub/notes.txt"),
            "attempt": (1, 2),
            "try_number": (1,),
            "stream": ("stdout", "stderr"),
            "skill_id": ("answer", "typed", "fuzzed"),
            "name": ("demo",),
            "key_id": ("fuzzed", "admin"),
        }

    @property
    def open_question(self) -> int:
        answer = self.http.get(f"{self.url}/v1/jobs/{self.asking}", headers=AUTHORIZED, timeout=PATIENCE)
        return int(answer.json()["pending_interaction_id"] or 1)

    def proof(self, path: str) -> dict[str, str]:
        """The token, or where that opens nothing, a link for the open question."""
        if path != "/v1/answer":
            return AUTHORIZED
        made = self.http.post(
            f"{self.url}/v1/jobs/{self.asking}/interaction/links",
            json={},
            headers=AUTHORIZED,
            timeout=PATIENCE,
        ).json()
        # Between two questions there is none; then it is a stranger's.
        return {"Authorization": f"Bearer {made.get('url', '').partition('#answer=')[2]}"}


AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Known]:
    """A service in a thread of its own: hypothesis does not wait for an event loop."""
    data_dir = tmp_path_factory.mktemp("fuzz") / "data"
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(opened(data_dir, slots=2, max_queued=4)) as place,
        requests.Session() as http,
    ):
        http.trust_env = False
        yield portal.call(prepared, place.client, http)
        portal.call(drained, place.client)


async def prepared(client: Client, http: requests.Session) -> Known:
    files = [{"write_file": {"path": path, "text": "words"}} for path in ("report.txt", "sub/notes.txt")]
    ended = await client.create("answer", script([*files, ASK], [DONE]), **INTERACTIVE)
    await client.settled(ended)
    await client.reply(ended, "blue")
    assert (await client.settled(ended))["status"] == "succeeded"
    asking = await client.create("answer", script(*([ASK] for _ in range(200))), **INTERACTIVE)
    await client.settled(asking)
    held = [await client.create("filed", "done", input={"title": "Bees"}) for _ in range(9)]
    return Known(client.url, http, asking, ended, tuple(held))


async def drained(client: Client) -> None:
    for status in ("queued", "running", "waiting_user"):  # the way they move, so that none slips by
        listed = (await client.http.get("/v1/jobs", params={"status": status, "limit": 200})).json()["jobs"]
        for run in listed:
            await client.cancel(run["run_id"])
            await client.ended(run["run_id"])


def about_something(case: AnyCase, known: Known) -> Json:
    """Most of what is right about a request is made true as well, by its own content, so that it can be repeated.
    What is to be sent in place of what was drawn is returned: some cases share their bodies."""
    assert case.meta is not None
    is_right = case.meta.generation.mode.is_positive
    if is_right and case.operation.label == "POST /v1/prune" and isinstance(case.body, dict):
        return {
            "json": case.body | {"dry_run": True}
        }  # the other calls are about the runs that it would remove
    chance = crc32(repr((case.path_parameters, case.query, case.body)).encode("utf-8", "replace"))
    if chance % 4 == 0:
        return {}
    if not case.meta.is_negative_at(ParameterLocation.PATH):
        names = known.names(case.path)
        case.path_parameters = {name: names[name][chance % len(names[name])] for name in case.path_parameters}
    if not is_right or not isinstance(case.body, dict):
        return {}
    return filled(case.operation.label, case.body, known, chance)


def filled(call: str, body: Json, known: Known, chance: int) -> Json:
    if call == "POST /v1/jobs":
        skill = ("answer", "plain", "typed", "filed")[chance % 4]
        there = {"skill_id": skill, "engine": "demo", "model": "demo", "runtime_options": {}}
        given = {"input": {"title": "Bees"}, "parameter": {"demo_script": "done"}}
        key = {"Idempotency-Key": f"{chance}"} if chance % 2 else {}  # one key for all is soon used up
        return {"json": body | there | given, "headers": key}
    if call.endswith("/reply"):
        return {"json": body | {"interaction_id": known.open_question}}
    if call.endswith("/upload"):
        return {"files": {"file": zipped({"document.txt": b"words"})}}
    if call == "POST /v1/skills":
        return {"files": {"file": zipped({"fuzzed/SKILL.md": f"---\nname: fuzzed {chance}\n---\nDo it."})}}
    return {}


def whole_problem(ctx: CheckContext, response: Response, case: AnyCase) -> None:
    """Every refusal is a problem document, also of what no description can know of."""
    if response.status_code < 400 or (case.path, response.status_code) == ("/readyz", 503):
        return
    assert response.headers["content-type"] == ["application/problem+json"]
    if response.request.method == "HEAD":
        return
    problem = response.json()
    assert problem["status"] == response.status_code
    assert problem["error"] == {"code": Code(problem["code"]).value, "message": problem["detail"]}


def right_form_is_accepted(ctx: CheckContext, response: Response, case: AnyCase) -> None:
    """What fits the description may be refused for what it asks for, but not for its form."""
    assert case.meta is not None
    if response.status_code == 400 and case.meta.generation.mode.is_positive:
        by_the_skill = case.path.endswith("/upload")  # which parts it takes, only the skill knows
        assert by_the_skill or response.json()["code"] not in ("INVALID_REQUEST", "UNKNOWN_FIELD"), (
            response.text
        )


CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
    checks.unsupported_method,
    checks.allow_header_conformance,
    whole_problem,
    right_form_is_accepted,
]


@schema.parametrize()
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))  # a busy machine is no finding
def test_every_answer_is_documented(case: AnyCase, known: Known) -> None:
    sent = about_something(case, known)
    headers = known.proof(case.path) | sent.pop("headers", {})
    case.call_and_validate(known.url, known.http, headers, checks=CHECKS, timeout=PATIENCE, **sent)
