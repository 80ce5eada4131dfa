"""The API as it describes itself: valid OpenAPI, with every refusal, and in step with the handbook."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.harness import Client, Json
from turnkeeper import __version__
from turnkeeper.core.errors import MEANING, Code
from turnkeeper.web.problems import STATUS, status_of

HANDBOOK = Path(__file__).parents[2] / "docs" / "errors.md"
PROBLEM = "application/problem+json"
METHODS = {"get", "put", "post", "delete", "options", "head", "patch", "trace"}
AT_THE_START = {Code.SETTINGS_INVALID, Code.DATA_DIR_IN_USE, Code.SCHEMA_TOO_NEW}

EVERYWHERE = {"403", "413", "414", "429", "431", "500"}
OPEN = ("/healthz", "/readyz", "/v1/session")
NAMED_IN_THE_BODY = (("post", "/v1/jobs"), ("post", "/v1/keys"))
NEW_WORK = ("/v1/jobs", "/v1/jobs/{run_id}/upload", "/v1/skills")


@pytest.fixture(scope="module")
async def described(client: Client) -> Json:
    answer = await client.http.get("/v1/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    return dict(answer.json())


def operations(described: Json) -> Iterator[tuple[str, str, Json]]:
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def nodes(value: Any) -> Iterator[Json]:
    """Every object inside, itself included."""
    if isinstance(value, dict):
        yield value
        for each in value.values():
            yield from nodes(each)
    elif isinstance(value, list):
        for each in value:
            yield from nodes(each)


async def test_has_the_parts_that_openapi_asks_for(described: Json) -> None:
    assert re.fullmatch(r"3\.1\.\d+", described["openapi"])
    assert (described["info"]["title"], described["info"]["version"]) == ("Turnkeeper", __version__)
    assert set(described) <= {"openapi", "info", "paths", "components", "tags", "security", "servers"}
    for path, methods in described["paths"].items():
        assert path.startswith("/")
        assert set(methods) <= METHODS
        for operation in methods.values():
            assert operation["responses"]
            assert all(re.fullmatch(r"[1-5]\d\d", status) for status in operation["responses"])
            assert all(response["description"] for response in operation["responses"].values())


async def test_every_operation_has_a_name_of_its_own(described: Json) -> None:
    names = [operation["operationId"] for _, _, operation in operations(described)]
    assert len(names) == len(set(names)) >= 20


async def test_every_parameter_of_a_path_is_declared(described: Json) -> None:
    for path, _, operation in operations(described):
        declared = {each["name"] for each in operation.get("parameters", []) if each["in"] == "path"}
        assert declared == set(re.findall(r"{(\w+)}", path)), path


async def test_every_reference_leads_somewhere(described: Json) -> None:
    references = {node["$ref"] for node in nodes(described) if isinstance(node.get("$ref"), str)}
    assert references
    for reference in references:
        target: Any = described
        for part in reference.removeprefix("#/").split("/"):
            target = target[part]
    used = {reference.rsplit("/", 1)[1] for reference in references}
    assert used == set(described["components"]["schemas"]), "a schema that nothing uses"


async def test_every_schema_is_one(described: Json) -> None:
    for schema in described["components"]["schemas"].values():
        jsonschema_rs.Draft202012Validator(schema | {"components": described["components"]})


async def test_every_operation_documents_its_refusals_and_no_others(described: Json) -> None:
    for path, method, operation in operations(described):
        refusals = {status for status in operation["responses"] if status >= "400"}
        assert refusals >= EVERYWHERE, "what the guard and a fault of ours answer everywhere"
        assert refusals <= EVERYWHERE | {"400", "401", "404", "408", "409", "410", "503", "507"}
        assert ("401" in refusals) == (path not in OPEN or (method, path) == ("post", "/v1/session")), path
        assert ("400" in refusals) == ("parameters" in operation or "requestBody" in operation), path
        assert ("404" in refusals) == ("{" in path or (method, path) in NAMED_IN_THE_BODY), path
        assert ("408" in refusals) == ("400" in refusals), path
        assert ("410" in refusals) == (path == "/v1/answer"), path
        assert ("507" in refusals) == (method == "post" and path in NEW_WORK), path
        for status in refusals:
            content = operation["responses"][status]["content"]
            if (path, status) == ("/readyz", "503"):
                continue  # not a refusal but an answer: not ready
            assert content == {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}, (
                f"{path} {status}"
            )


async def test_problem_has_the_members_that_clients_read(described: Json) -> None:
    problem = described["components"]["schemas"]["Problem"]
    assert set(problem["required"]) == {"type", "title", "status", "detail", "code", "error"}
    assert problem["properties"]["detail"]["type"] == "string"


async def test_says_which_calls_need_the_token(described: Json) -> None:
    schemes = described["components"]["securitySchemes"]
    assert schemes["token"] == {"type": "http", "scheme": "bearer"}
    assert schemes["cookie"]["in"] == "cookie"
    for path, _, operation in operations(described):
        usual: list[Json] = [] if path in OPEN else [{"token": []}, {"cookie": [], "page_key": []}]
        assert operation["security"] == ([{"link": []}] if path == "/v1/answer" else usual)


async def test_what_is_answered_is_what_was_described(client: Client, described: Json) -> None:
    """With the document's own schemas, for each call that answers with JSON."""
    run_id = await client.create("answer", "ask", execution_mode="interactive")
    await client.settled(run_id)
    await client.reply(run_id, "blue")
    await client.settled(run_id)
    names = {"run_id": run_id, "skill_id": "answer", "name": "demo", "key_id": "admin"}
    looked_at = 0
    for path, method, operation in operations(described):
        answer = operation["responses"]["200"].get("content", {}).get("application/json", {}).get("schema")
        if method != "get" or not answer or path == "/v1/answer":  # that one is for links
            continue
        body = (await client.http.get(path.format_map(names))).json()
        schema = answer | {"components": described["components"]}
        errors = [error.message for error in jsonschema_rs.Draft202012Validator(schema).iter_errors(body)]
        assert not errors, f"{path}: {errors}"
        looked_at += 1
    assert looked_at >= 12


def test_every_code_has_a_status_and_a_meaning() -> None:
    assert set(MEANING) >= set(Code)
    assert all(MEANING[code].endswith(".") for code in Code)
    assert {status_of(code) for code in Code} == {400, *STATUS.values()}


@pytest.mark.parametrize("code", [code for code in Code if code not in AT_THE_START])
def test_every_code_is_in_the_handbook(code: Code) -> None:
    assert f"`{code.value}`" in HANDBOOK.read_text(encoding="utf-8")
