"""Words of a command line as the input of a job."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from turnkeeper.cli.given import files_of, object_of, option_for
from turnkeeper.core.errors import InvalidRequest

SCHEMA = {
    "type": "object",
    "required": ["document"],
    "properties": {
        "topic": {"type": "string"},
        "count": {"type": "integer"},
        "either": {"type": ["string", "null"]},
        "tags": {"type": "array"},
        "size": {"enum": ["1", "2"]},
        "any": {},
        "document": {"type": "string", "x-input-source": "file"},
        "pages": {"type": "array", "x-input-source": "file"},
    },
}


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("topic=tea", "tea"),
        ("topic=5", "5"),
        ("topic=a=b", "a=b"),
        ("topic=", ""),
        ("topic=@@home", "@home"),
        ("count=5", 5),
        ("count=many", "many"),
        ("either=null", "null"),
        ('tags=["a"]', ["a"]),
        ("size=1", "1"),
        ("any=5", 5),
        ("unknown=5", "5"),
        ('unknown={"a": 1}', {"a": 1}),
    ],
)
def test_a_value_is_what_the_schema_wants(word: str, value: Any) -> None:
    (found,) = object_of([word], SCHEMA, "--input").values()
    assert found == value


@pytest.mark.parametrize("schema", [None, {}, {"properties": []}, {"properties": {"n": True}}])
def test_without_a_schema_it_is_text(schema: Any) -> None:
    assert object_of(["n=007", 'o={"a": 1}'], schema, "--input") == {"n": "007", "o": {"a": 1}}


def test_from_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Zwölf\n")
    (tmp_path / "all.json").write_text('{"topic": "tea", "count": 1}')
    words = [f"@{tmp_path}/all.json", "count=2", f"either=@{tmp_path}/notes.txt"]
    assert object_of(words, SCHEMA, "--input") == {"topic": "tea", "count": 2, "either": "Zwölf\n"}


def test_from_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"topic": "tea"}')))
    assert object_of(["-"], SCHEMA, "--input") == {"topic": "tea"}
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"green tea")))
    assert object_of(["topic=@-"], SCHEMA, "--input") == {"topic": "green tea"}


def test_what_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "none.json").write_text("{")
    (tmp_path / "nan.json").write_text('{"count": NaN}')
    (tmp_path / "deep.json").write_text(f'{{"any": {"[" * 100_000}{"]" * 100_000}}}')
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    for word, why in {
        "topic": "give NAME=VALUE",
        "=tea": "give NAME=VALUE",
        "topic=@/nowhere": "/nowhere cannot be read: No such file",
        f"topic=@{tmp_path}/bytes": "no text in UTF-8",
        f"@{tmp_path}/list.json": "not a JSON object",
        f"@{tmp_path}/none.json": "not JSON",
        f"@{tmp_path}/nan.json": "NaN is no JSON",
        f"@{tmp_path}/deep.json": "nested too deeply",
    }.items():
        with pytest.raises(InvalidRequest) as refused:
            object_of([word], SCHEMA, "--input")
        assert why in refused.value.message


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("a")
    assert files_of([f"document={path}"], SCHEMA) == {"document": str(path)}
    both = files_of([f"document={path}", f"pages={path}"], SCHEMA)
    assert both["pages"] == [str(path)], "a list is a list also of one"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "the skill needs a file: --file document=PATH"),
        (["document"], "give NAME=PATH"),
        (["document=/nowhere/a.md"], "there is no file /nowhere/a.md"),
        (["topic=/dev/../etc/hostname"], "the skill has no such file input; its files are: document, pages"),
    ],
)
def test_files_that_are_not_meant(words: list[str], why: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        files_of(words, SCHEMA)
    assert why in refused.value.message


@pytest.mark.parametrize(
    ("error", "option"),
    [
        ("/input/topic: 5 is not of type string", "--input topic=…"),
        ('/input: "notes" is a required property', "--input notes=…"),
        ("/input: Additional properties are not allowed", "--input NAME=…"),
        ("/parameter/length/0: too long", "--param length=…"),
        ("input/topic: too long", "--input topic=…"),
        ("/body/permissions: Input should be 'allow', 'ask' or 'deny'", "--permissions"),
        ("/body/response: too long", None),
        ("engine: unknown", None),
    ],
)
def test_the_option_for_an_error(error: str, option: str | None) -> None:
    assert option_for(error) == option


def test_words_survive_as_they_are() -> None:
    text = json.dumps({"a": "\u001b[31m", "b": "ü"})
    assert object_of([f"any={text}"], SCHEMA, "--input") == {"any": {"a": "\u001b[31m", "b": "ü"}}
