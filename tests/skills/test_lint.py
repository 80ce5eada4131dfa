"""The strict reading: each finding has its code, and the loader's problems are among them word for word."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.harness import SKILLS
from tests.skills.folders import OBJECT, Json, skill_at
from tests.skills.test_prompt import run
from tests.skills.test_reader import PUBLIC
from turnkeeper import engines
from turnkeeper.core.errors import SkillBroken, Warn
from turnkeeper.skills import prompt
from turnkeeper.skills.findings import BREAKS, FIX, STRICT, WARNS, Severity
from turnkeeper.skills.lint import LINT, PLACEHOLDERS, lint, lint_each
from turnkeeper.skills.package import RUNNER_FILE, load
from turnkeeper.skills.reader import MAX_FILE, MAX_FRONT
from turnkeeper.skills.words import fragment

EXAMPLES = Path(__file__).parents[2] / "examples" / "skills"
KNOWN = ("codex", "gemini", "demo")
OUTPUT = "assets/output.schema.json"
TEXT = "---\nname: it\ndescription: Does it.\n---\nDo it.\n"
GOOD: Json = {"version": "1.0", "schemas": {"output": OUTPUT}}


def good(
    root: Path, runner: Json | None = None, output: Any = OBJECT, text: str = TEXT, files: Json | None = None
) -> Path:
    """A skill without fault, but for what the test changes."""
    return skill_at(root, text, runner={**GOOD, **(runner or {})}, files={OUTPUT: output, **(files or {})})


def found(root: Path) -> list[tuple[str, str, str]]:
    return [(each.code, each.where, each.message) for each in lint(root, KNOWN)]


def of_input(schema: Json) -> Json:
    return {
        "runner": {"schemas": {"output": OUTPUT, "input": "in"}},
        "files": {"in": {"type": "object", "properties": schema}},
    }


def front(**fields: str) -> str:
    matter = {"name": "it", "description": "Does it.", **fields}
    return "---\n" + "".join(f"{key}: {value}\n" for key, value in matter.items()) + "---\n"


CASES: list[tuple[str, Json]] = [
    ("FILE_MISSING", {"runner": {"schemas": {"output": "gone.json"}}}),
    ("FILE_UNREADABLE", {"runner": {"schemas": {"output": "assets"}}}),
    ("FILE_TOO_LARGE", {"output": " " * MAX_FILE + "{}"}),
    ("FILE_OUTSIDE", {"runner": {"schemas": {"output": "../x.json"}}}),
    ("FRONT_MATTER_TOO_LONG", {"text": f"---\n{'#' * (MAX_FRONT + 1)}\n---\n"}),
    ("JSON_INVALID", {"output": "{"}),
    ("JSON_INVALID", {"output": "[]"}),
    ("JSON_UNUSABLE", {"output": '{"type": "object", "title": "\\ud800"}'}),
    ("FIELD_INVALID", {"runner": {"engines": "demo"}}),
    ("FIELD_INVALID", {"runner": {"schemas": {"output": OUTPUT, "input": {}}}}),
    ("ID_INVALID", {"runner": {"id": "a b"}}),
    ("MODE_UNKNOWN", {"runner": {"execution_modes": ["manual"]}}),
    ("MAX_ATTEMPT_INVALID", {"runner": {"max_attempt": 0}}),
    ("TIMEOUT_INVALID", {"runner": {"timeouts": {"turn_sec": -1}}}),
    ("ARTIFACT_INVALID", {"runner": {"artifacts": [{"pattern": "/x"}]}}),
    ("SECRET_INVALID", {"runner": {"secrets": ["github-token"]}}),
    ("SECRET_INVALID", {"runner": {"secrets": ["LD_PRELOAD"]}}),
    ("SECRET_INVALID", {"runner": {"secrets": ["GITHUB_TOKEN", "GITHUB_TOKEN"]}}),
    ("FIELD_INVALID", {"runner": {"secrets": {"GITHUB_TOKEN": True}}}),
    ("SCHEMA_INVALID", {"output": {"type": "objekt"}}),
    ("SCHEMA_NOT_OBJECT", {"output": {"type": "array"}}),
    ("SCHEMA_DECLARES_MARKER", {"output": {**OBJECT, "properties": {"__SKILL_DONE__": {}}}}),
    ("FILE_INPUT_INVALID", of_input({"a": {"type": "integer", "x-input-source": "file"}})),
    ("DEFAULT_INVALID", of_input({"a": {"type": "integer", "default": "x"}})),
    ("ENGINE_NONE_LEFT", {"runner": {"unsupported_engines": list(KNOWN)}}),
    ("FRONT_MATTER_MISSING", {"text": "Do it."}),
    ("FRONT_MATTER_MISSING", {"text": "---\nname: it\n"}),
    ("FRONT_MATTER_INVALID", {"text": front(description="this: that")}),
    ("NAME_MISSING", {"text": front(name="")}),
    ("NAME_INVALID", {"text": front(name="It")}),
    ("NAME_INVALID", {"text": front(name="a--b")}),
    ("NAME_INVALID", {"text": front(name="a" * 65)}),
    ("NAME_NOT_FOLDER", {"text": front(name="other")}),
    ("DESCRIPTION_MISSING", {"text": front(description="")}),
    ("DESCRIPTION_TOO_LONG", {"text": front(description="x" * 1025)}),
    ("LINK_BROKEN", {"text": front() + "See [it](references/gone.md)."}),
    ("LINK_BROKEN", {"text": front() + "See [it](../other/SKILL.md)."}),
    ("KEY_TWICE", {"output": '{"type": "object", "required": ["a"], "required": ["b"]}'}),
    ("KEY_UNKNOWN", {"runner": {"max_attempts": 3}}),
    ("VERSION_NOT_NUMBERS", {"runner": {"version": "1.0-beta"}}),
    ("ENGINE_UNKNOWN", {"runner": {"engines": ["codex", "cursor"]}}),
    ("ENGINE_CONTRADICTION", {"runner": {"engines": ["codex", "demo"], "unsupported_engines": ["demo"]}}),
    ("MODES_EMPTY", {"runner": {"execution_modes": []}}),
    ("PROMPT_UNUSED", {"runner": {"engines": ["demo"], "entrypoint": {"prompts": {"codex": "Go."}}}}),
    ("PLACEHOLDER_UNKNOWN", {"runner": {"entrypoint": {"prompts": {"default": "{{inputs}}"}}}}),
    ("PLACEHOLDER_UNKNOWN", {"runner": {"entrypoint": {"prompts": {"default": "{{ input }}"}}}}),
    ("ARTIFACT_MATCHES_ALL", {"runner": {"artifacts": [{"pattern": "**"}]}}),
    ("ARTIFACT_MATCHES_ALL", {"runner": {"artifacts": [{"pattern": "**/*"}]}}),
    ("INPUT_SOURCE_UNKNOWN", of_input({"a": {"type": "string", "x-input-source": "upload"}})),
    ("OUTPUT_SCHEMA_MISSING", {"runner": {"schemas": {}}}),
    ("OUTPUT_SCHEMA_TOO_LOOSE", {"output": {"type": "object"}}),
]
ELSEWHERE = {"FOLDER_NAME_INVALID", "TEXT_NOT_UTF8", "ID_TWICE"}
"""These cannot be told by the files' text; they have tests of their own below."""


@pytest.mark.parametrize(("code", "changes"), CASES, ids=[code for code, _ in CASES])
def test_one_fault_is_one_finding(tmp_path: Path, code: str, changes: Json) -> None:
    (only,) = lint(good(tmp_path / "it", **changes), KNOWN)
    assert only.code == code
    assert only.severity is (Severity.WARNING if code in WARNS else Severity.ERROR)


@pytest.mark.parametrize(("code", "changes"), CASES, ids=[code for code, _ in CASES])
def test_only_what_breaks_a_skill_stops_it_from_loading(tmp_path: Path, code: str, changes: Json) -> None:
    root = good(tmp_path / "it", **changes)
    if code not in BREAKS:
        assert load(root).id == "it"
        return
    with pytest.raises(SkillBroken) as broken:
        load(root)
    assert broken.value.problems == [each.sentence for each in lint(root, KNOWN)]


def test_every_code_has_a_case_and_a_sentence() -> None:
    assert {code for code, _ in CASES} | ELSEWHERE == set(LINT)
    assert len(LINT) == len(BREAKS) + len(STRICT) + len(WARNS)
    for code, sentence in LINT.items():
        assert code.isupper()
        assert sentence[0].isupper() or sentence.startswith("`")
        assert sentence.endswith(".")
    assert Warn.OUTPUT_SCHEMA_TOO_LOOSE in LINT


def test_whoever_meets_a_finding_is_told_what_to_do() -> None:
    assert list(FIX) == list(LINT), "in the same order"
    assert all(words.endswith(".") for words in FIX.values())


def test_good_skills_give_no_findings(tmp_path: Path) -> None:
    assert lint(good(tmp_path / "it"), KNOWN) == []
    assert lint(skill_at(tmp_path / "it", TEXT), KNOWN) == []


@pytest.mark.parametrize(
    "root", [*EXAMPLES.iterdir(), *SKILLS.iterdir(), *PUBLIC.iterdir()], ids=lambda root: root.name
)
def test_our_own_skills_have_no_errors(root: Path) -> None:
    assert [each for each in lint(root, engines.names()) if each.severity is Severity.ERROR] == []


@pytest.mark.parametrize("root", [*EXAMPLES.iterdir()], ids=lambda root: root.name)
def test_examples_do_not_even_have_warnings(root: Path) -> None:
    assert lint(root, engines.names()) == []


def test_errors_come_first(tmp_path: Path) -> None:
    runner = {"unknown": 1, "max_attempt": 0, "version": "x", "execution_modes": ["x"]}
    severities = [each.severity for each in lint(good(tmp_path / "it", runner), KNOWN)]
    assert severities == [Severity.ERROR] * 2 + [Severity.WARNING] * 2


def test_folder_that_is_not_unicode(tmp_path: Path) -> None:
    root = good(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")))
    assert [code for code, _, _ in found(root)] == ["FOLDER_NAME_INVALID", "NAME_NOT_FOLDER"]


def test_file_that_is_not_utf8(tmp_path: Path) -> None:
    root = good(tmp_path / "it")
    (root / "SKILL.md").write_bytes(TEXT.encode() + b"caf\xe9")
    assert found(root) == [("TEXT_NOT_UTF8", "SKILL.md", f"is not UTF-8 at byte {len(TEXT) + 3}")]


def test_second_skill_of_one_id_is_never_run(tmp_path: Path) -> None:
    first, other = good(tmp_path / "a" / "it"), good(tmp_path / "b" / "it")
    each = lint_each([first, other], KNOWN)
    assert each[first] == []
    assert [one.code for one in each[other]] == ["ID_TWICE"]
    assert str(first) in each[other][0].message


@pytest.mark.parametrize(
    ("runner", "message"),
    [
        ({"engine": ["demo"]}, "unknown field 'engine'; did you mean 'engines'?"),
        ({"Version": "2"}, "unknown field 'Version'; did you mean 'version'?"),
        ({"zzz": 1}, "unknown field 'zzz'"),
        (
            {"schemas": {"output": OUTPUT, "outputs": "x"}},
            "unknown field 'outputs' in schemas; did you mean 'output'?",
        ),
        ({"entrypoint": {"prompt": {}}}, "unknown field 'prompt' in entrypoint; did you mean 'prompts'?"),
        (
            {"artifacts": [{"pattern": "a", "patern": "b"}]},
            "unknown field 'patern' in artifacts; did you mean 'pattern'?",
        ),
        ({"engines": ["codx"]}, "there is no engine 'codx'; did you mean 'codex'?"),
        (
            {"entrypoint": {"prompts": {"demo": "{{parameters}} {{name}} {{parameters}}"}}},
            "the prompt for 'demo' has an unknown placeholder 'parameters'; did you mean 'parameter'?",
        ),
        ({"entrypoint": {"prompts": {"cursor": "Go."}}}, "there is no engine 'cursor'"),
    ],
)
def test_nearest_name_is_told(tmp_path: Path, runner: Json, message: str) -> None:
    messages = [each for _, _, each in found(good(tmp_path / "it", runner))]
    assert message in messages


def test_known_fields_and_placeholders_are_fine(tmp_path: Path) -> None:
    prompt = " ".join(f"{{{{{name}}}}}" for name in PLACEHOLDERS) + " {not} {} {{}} ${{ }}"
    runner = {
        "$schema": "https://example.com/runner.json",
        "id": "it",
        "name": "It",
        "description": "Does it.",
        "engines": ["codex", "demo"],
        "unsupported_engines": [],
        "execution_modes": ["auto"],
        "max_attempt": 3,
        "artifacts": [{"role": "all", "pattern": "out/**", "mime": "text/plain", "required": True}],
        "entrypoint": {"prompts": {"demo": prompt, "default": prompt}},
        "timeouts": {"turn_sec": 5},
    }
    root = good(tmp_path / "it", runner)
    assert found(root) == []


def test_placeholders_are_those_that_a_run_fills_in() -> None:
    words = " ".join(f"{{{{{name}}}}}" for name in PLACEHOLDERS)
    assert "{{" not in prompt.start(run(prompts={"default": words}), Path("/run/skill"))
    used = set(re.findall(r"\{\{(\w+)\}\}", fragment("start")))
    assert used <= set(PLACEHOLDERS), "our own opening words know no more than a skill's"


@pytest.mark.parametrize(
    ("body", "broken"),
    [
        ("[a](here.md) [b](sub/there.md#part) ![c](sub/there.md) [d](sub)", []),
        ("[a](./here.md) [b](sub/../here.md) [c](<here.md>) [d](here.md 'title') [e](he%72e.md?x=1)", []),
        ("[a](https://e.com/x.md) [b](mailto:a@b.c) [c](#part) [d](/absolute) [e](//host/x)", []),
        ("[a](gone.md) and again [a](gone.md)", ["gone.md"]),
        ("![a](sub/gone.png 'title') [b](sub/gone.md#x)", ["sub/gone.png", "sub/gone.md#x"]),
        ("[a](link.md)", ["link.md"]),
        ("```\n[a](gone.md)\n```\n[b](gone2.md)", ["gone2.md"]),
        ("~~~md\n```\n[a](gone.md)\n~~~\n", []),
        ("Write `[a](gone.md)` so", []),
        ("[a](output/{name}.md) [b](charts/*.png) [c]($DIR/x)", []),
        ("[a](a\0b)", ["a\ufffdb"]),
        ("](" * 50_000 + " " * 50_000, []),
        ("[" * 100_000 + "`" * 99_999, []),
    ],
    ids=lambda value: str(value)[:30],
)
def test_links(tmp_path: Path, body: str, broken: list[str]) -> None:
    root = good(tmp_path / "it", text=front() + body, files={"here.md": "x", "sub/there.md": "x"})
    (root / "link.md").symlink_to("/etc/passwd")
    messages = [message for _, _, message in found(root)]
    assert len(messages) == len(broken)
    for message, target in zip(messages, broken, strict=True):
        assert target.replace("\ufffd", "") in message.replace("\\x00", "")


@pytest.mark.parametrize(
    ("schema", "count"),
    [
        ({"properties": {"a": {"type": "integer", "default": 5}}}, 0),
        ({"properties": {"a": {"$ref": "#/$defs/n", "default": 5}}, "$defs": {"n": {"type": "integer"}}}, 0),
        (
            {"properties": {"a": {"$ref": "#/$defs/n", "default": "x"}}, "$defs": {"n": {"type": "integer"}}},
            1,
        ),
        ({"properties": {"a": {"default": 5}, "b": {}}, "required": ["b"], "minProperties": 2}, 0),
        ({"properties": {"a": {"enum": ["x"], "default": "y"}, "b": {"type": "string", "default": None}}}, 2),
        ({"properties": {"a": {"properties": {"deep": {"type": "integer", "default": "x"}}}}}, 0),
    ],
)
@pytest.mark.parametrize("kind", ["input", "parameter"])
def test_defaults_fit_what_they_are_for(tmp_path: Path, kind: str, schema: Json, count: int) -> None:
    runner = {"schemas": {"output": OUTPUT, kind: "schema.json"}}
    findings = lint(good(tmp_path / "it", runner, files={"schema.json": {"type": "object", **schema}}), KNOWN)
    assert [(each.code, each.where) for each in findings] == [("DEFAULT_INVALID", "schema.json")] * count


def test_plain_skill_is_not_asked_for_a_runner(tmp_path: Path) -> None:
    root = skill_at(tmp_path / "it", front(version="one"))
    assert [(code, where) for code, where, _ in found(root)] == [("VERSION_NOT_NUMBERS", "SKILL.md")]


def test_broken_runner_is_told_once(tmp_path: Path) -> None:
    root = skill_at(tmp_path / "it", TEXT, runner="{")
    assert [(code, where) for code, where, _ in found(root)] == [("JSON_INVALID", RUNNER_FILE)]


def test_engines_are_known_by_name() -> None:
    assert {"demo", "codex", "gemini", "iflow", "opencode"} <= set(engines.names())
