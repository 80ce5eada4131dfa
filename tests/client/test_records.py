"""Records of newer and older services, and that both clients have the same face."""

from __future__ import annotations

import inspect
import json

import msgspec
import pytest

from turnkeeper.client import AsyncClient, AsyncRun, Client, Option, Question, Run, RunInfo
from turnkeeper.client.records import decoded

TIMES = {"created_at": "2026-01-02T03:04:05.000006Z", "updated_at": "2026-01-02T03:04:05.000006Z"}
OLD = {"run_id": "r", "status": "queued", "skill_id": "s", "engine": "demo", **TIMES}


def test_an_older_service_tells_less() -> None:
    info = decoded(json.dumps(OLD).encode(), RunInfo)
    assert (info.pending, info.warnings, info.usage, info.is_over) == (None, (), {}, False)
    assert {name: info.to_dict()[name] for name in OLD} == OLD
    assert info.to_dict()["warnings"] == []


def test_a_newer_service_tells_more() -> None:
    pending = {"interaction_id": 1, "prompt": "Well?", "kind": "newest", "mood": "good"}
    info = decoded(json.dumps(OLD | {"status": "dreaming", "pending": pending}).encode(), RunInfo)
    assert info.pending == Question(interaction_id=1, prompt="Well?", kind="newest")
    assert not info.is_waiting


def test_no_options_are_no_options_however_they_are_told() -> None:
    told = {"interaction_id": 1, "prompt": "Well?", "options": None, "ui_hints": None}
    assert decoded(json.dumps(told).encode(), Question) == Question(interaction_id=1, prompt="Well?")
    told |= {"options": [{"label": "Five", "value": 5}]}
    assert decoded(json.dumps(told).encode(), Question).options == (Option(label="Five", value=5),)


def test_records_do_not_change() -> None:
    question = Question(interaction_id=1, prompt="Well?")
    with pytest.raises(AttributeError):
        question.prompt = "Now?"  # type: ignore[misc]
    assert msgspec.structs.replace(question, prompt="Now?").prompt == "Now?"


@pytest.mark.parametrize(("one", "other"), [(Client, AsyncClient), (Run, AsyncRun)])
def test_both_clients_have_the_same_face(one: type, other: type) -> None:
    assert face(one) == face(other)


def face(kind: type) -> dict[str, object]:
    """Public names with their parameters; what they return differs."""
    public = {name: each for name, each in vars(kind).items() if not name.startswith("_")}
    calls = {"__init__": vars(kind)["__init__"]} | public
    return {
        name: [*inspect.signature(each).parameters.values()][1:] if callable(each) else None
        for name, each in calls.items()
        if name != "__init__" or kind in (Client, AsyncClient)
    }
