"""What every refusal of the API looks like."""

from __future__ import annotations

import httpx

from tests.harness import Json
from turnkeeper.core.errors import MEANING, Code


def assert_problem(answer: httpx.Response, status: int, code: Code) -> Json:
    """A whole problem document with this code; returns it for what else it should say."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = dict(answer.json())
    assert body["type"] == f"urn:turnkeeper:error:{code.value.lower()}"
    assert (body["title"], body["status"], body["code"]) == (MEANING[code], status, code.value)
    assert isinstance(body["detail"], str)
    assert body["detail"]
    assert body["error"] == {"code": code.value, "message": body["detail"]}
    return body
