"""Skills of strangers: whatever is in their files, they load or say what is wrong, and never more than that."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.skills.folders import OBJECT, skill_at
from turnkeeper.core.errors import SkillBroken
from turnkeeper.core.skill import Skill
from turnkeeper.skills.findings import LINT
from turnkeeper.skills.package import RUNNER_FILE, SKILL_FILE, load, read
from turnkeeper.skills.reader import MAX_FRONT

PUBLIC = Path(__file__).parents[1] / "fakes" / "public-skills"
OUTPUT = "assets/output.schema.json"
RUNNER = {"schemas": {"input": OUTPUT, "parameter": OUTPUT, "output": OUTPUT}}


def codes(root: Path) -> list[str]:
    return [each.code for each in read(root).findings]


def storable(value: Any) -> None:
    """As a row in the database and as an answer; both are UTF-8 JSON."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    assert json.loads(text.encode()) == json.loads(json.dumps(value))
    assert "\\u0000" not in text.replace("\\\\", "")


def told(root: Path) -> Skill | SkillBroken:
    """What a reader of the catalogue gets; anything else is a crash."""
    try:
        skill = load(root)
    except SkillBroken as broken:
        storable([broken.skill_id, broken.message, broken.problems])
        return broken
    storable(asdict(skill))
    return skill


class TestPublic:
    @pytest.mark.parametrize("root", sorted(PUBLIC.iterdir()), ids=lambda root: root.name)
    def test_any_of_them_loads(self, root: Path) -> None:
        skill = load(root)
        assert skill.is_plain
        assert skill.id == root.name

    def test_what_they_say_of_themselves(self) -> None:
        found = {root.name: load(root) for root in PUBLIC.iterdir()}
        assert {name: skill.version for name, skill in found.items()} == {
            "pdf-forms": "2.1",
            "release-notes": "1.10",
            "no-front-matter": "0",
            "list-of-things": "0",
        }
        assert found["release-notes"].description.startswith("Write release notes: what changed")
        assert found["no-front-matter"].name == "no-front-matter"

    def test_windows_editor(self, tmp_path: Path) -> None:
        root = skill_at(tmp_path / "Brand Voice")
        lines = [
            "---",
            "name: Brand Voice",
            "description: >-",
            "  Rewrites text",
            "  in our voice.",
            "tools:",
            "  - Read",
        ]
        text = "\r\n".join([*lines, "---", "", "Short words.", ""])
        (root / SKILL_FILE).write_bytes(text.encode("utf-8-sig"))
        skill = load(root)
        assert (skill.name, skill.description) == ("Brand Voice", "Rewrites text in our voice.")

    @pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-32"])
    def test_other_encodings_are_read_as_far_as_they_go(self, tmp_path: Path, encoding: str) -> None:
        root = skill_at(tmp_path / "it", runner={"version": "1"})
        (root / SKILL_FILE).write_bytes("---\nname: it\ndescription: Café – très bon\n---\n".encode(encoding))
        assert isinstance(told(root), Skill)
        assert codes(root)[0] == "TEXT_NOT_UTF8"

    def test_runner_with_a_byte_order_mark(self, tmp_path: Path) -> None:
        root = skill_at(tmp_path / "it", runner={}, files={OUTPUT: {}})
        (root / OUTPUT).write_text(json.dumps(OBJECT), encoding="utf-8-sig")
        (root / RUNNER_FILE).write_text(json.dumps({"schemas": {"output": OUTPUT}}), encoding="utf-8-sig")
        assert load(root).output_schema == OBJECT


class TestFrontMatter:
    @pytest.mark.parametrize(
        ("matter", "name"),
        [
            ("name: 0x" + "f" * 5000, "it"),
            ('name: "a\\ud800b"', "a?b"),
            ('name: "a\\0b"', "a\ufffdb"),
            ("name: !!binary aGVsbG8=", "b'hello'"),
            ("name: {a: [1, 2]}", "{'a': [1, 2]}"),
            ("name: .nan", "nan"),
            ("? {a: b}\n: c", "it"),
            ("name: it\nname: twice", "twice"),
            ("<<: {name: merged}", "merged"),
            ("name: &a it\nother: *a", "&a it"),
            ("name: it\n" + "x" * 100, "it"),
            ("broken: [\nname:" + " " * (MAX_FRONT - 100), "it"),
            ("broken: [\nname: 'quoted'", "'quoted'"),
        ],
    )
    def test_name_is_always_text(self, tmp_path: Path, matter: str, name: str) -> None:
        found = told(skill_at(tmp_path / "it", f"---\n{matter}\n---\n"))
        assert isinstance(found, Skill)
        assert found.name == name


class TestJson:
    @pytest.mark.failure("A10")
    @pytest.mark.parametrize(
        ("text", "code"),
        [
            ('{"a": NaN}', "JSON_INVALID"),
            ('{"a": -Infinity}', "JSON_INVALID"),
            ('{"a": 1e999}', "JSON_INVALID"),
            ('{"a": ' + "9" * 5000 + "}", "JSON_INVALID"),
            ('{"a": ' * 300 + "1" + "}" * 300, "JSON_UNUSABLE"),
            ('{"a": ' * 100_000, "JSON_INVALID"),
            ('{"a": "\\ud800"}', "JSON_UNUSABLE"),
            ('{"\\udfff": 1}', "JSON_UNUSABLE"),
            ('{"a": "\\u0000"}', "JSON_UNUSABLE"),
            ('{"a": 1, "a": 2}', "KEY_TWICE"),
            ('{"a": {"b": 1, "b": 1}}', "KEY_TWICE"),
            ('{"a": "\\\\u0000", "b": "\\ud83d\\ude00"}', None),
            ('{"a": 1e308, "b": 123456789012345678901234567890}', None),
        ],
    )
    @pytest.mark.parametrize("name", [RUNNER_FILE, OUTPUT])
    def test_what_could_not_be_kept_is_refused(
        self, tmp_path: Path, name: str, text: str, code: str | None
    ) -> None:
        schema = '{"type": "object", "required": ["x"], ' + text[1:]
        files = {OUTPUT: schema if name == OUTPUT else OBJECT}
        root = skill_at(
            tmp_path / "it",
            "---\nname: it\n---\n",
            runner=text if name == RUNNER_FILE else {"schemas": {"output": OUTPUT}},
            files=files,
        )
        told(root)
        assert codes(root) == ([code] if code else [])
        assert [each.where for each in read(root).findings] == ([name] if code else [])

    def test_object_with_endless_double_keys_is_read_quickly(self, tmp_path: Path) -> None:
        keys = ",".join(f'"{number}":1' for number in range(40_000))
        root = skill_at(tmp_path / "it", "---\nname: it\n---\n", runner=f"{{{keys},{keys}}}")
        assert codes(root) == ["KEY_TWICE"]


class TestFolder:
    def test_name_that_is_not_unicode(self, tmp_path: Path) -> None:
        root = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
        found = told(skill_at(root, "---\nname: cafe\n---\n"))
        assert isinstance(found, SkillBroken)
        assert (found.skill_id, codes(root)) == ("caf?", ["FOLDER_NAME_INVALID"])

    def test_any_other_name_is_taken_as_it_is(self, tmp_path: Path) -> None:
        for name in ("with space", "Ünï", "-x", "(unnamed)", "x" * 200):
            assert load(skill_at(tmp_path / name)).id == name

    def test_path_that_cannot_be_told(self, tmp_path: Path) -> None:
        found = told(skill_at(tmp_path / "it", runner={"schemas": {"output": "\x1b[2J" + "x" * 5000}}))
        assert isinstance(found, SkillBroken)

    def test_nothing_stays_open(self, tmp_path: Path) -> None:
        root = skill_at(tmp_path / "it", runner={"schemas": {"input": "dir", "output": "pipe"}})
        (root / "dir").mkdir()
        os.mkfifo(root / "pipe")
        before = sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208
        assert codes(root)[-2:] == ["FILE_UNREADABLE", "FILE_UNREADABLE"]
        assert sorted(os.listdir("/proc/self/fd")) == before  # noqa: PTH208

    @pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable for root")
    def test_file_without_permission(self, tmp_path: Path) -> None:
        root = skill_at(tmp_path / "it", "---\nname: it\n---\n", runner={})
        (root / RUNNER_FILE).chmod(0)
        assert codes(root) == ["FILE_UNREADABLE"]


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=8)
    | st.sampled_from(["auto", "demo", OUTPUT, "..", "**", "\ud800", "\0", "/etc/passwd", "a/../..", "1.0"])
)
ANY = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


def runner_fields() -> st.SearchStrategy[dict[str, Any]]:
    places = {
        "schemas": ["input", "parameter", "output"],
        "entrypoint": ["prompts"],
        "timeouts": ["turn_sec"],
    }
    inside = {name: st.dictionaries(st.sampled_from(keys), ANY) | ANY for name, keys in places.items()}
    rule = st.dictionaries(st.sampled_from(["role", "pattern", "mime", "required"]), ANY)
    names = ["id", "version", "engines", "unsupported_engines", "execution_modes", "max_attempt", "unknown"]
    plain: dict[str, st.SearchStrategy[Any]] = dict.fromkeys(names, ANY)
    return st.fixed_dictionaries(
        {}, optional={**plain, **inside, "artifacts": st.lists(rule | ANY, max_size=3) | ANY}
    )


BYTES = st.binary(max_size=200)
RUNNERS = (
    BYTES
    | runner_fields().map(lambda fields: json.dumps(fields).encode())
    | st.just(json.dumps(RUNNER).encode())
)
SCHEMAS = BYTES | ANY.map(
    lambda value: json.dumps({"type": "object", "properties": value, "enum": value}).encode()
)
MATTER = st.text(st.characters(exclude_categories=["Cs"]), max_size=60) | st.sampled_from(
    ["name: ", "version: 1.0"]
)


@contextmanager
def folder(files: dict[str, bytes]) -> Iterator[Path]:
    with TemporaryDirectory() as parent:
        root = Path(parent) / "it"
        for name, data in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(data)
        yield root


@given(text=BYTES | MATTER.map(lambda matter: f"---\n{matter}\n---\n".encode()))
@example(text=b"---\n? \n---\n")
def test_any_skill_file_loads(text: bytes) -> None:
    with folder({SKILL_FILE: text}) as root:
        assert isinstance(told(root), Skill)


@given(runner=RUNNERS, output=SCHEMAS)
def test_any_runner_and_any_schema_load_or_say_what_is_wrong(runner: bytes, output: bytes) -> None:
    with folder({SKILL_FILE: b"", RUNNER_FILE: runner, OUTPUT: output}) as root:
        found = told(root)
        errors = [each for each in read(root).findings if each.severity == "error"]
        assert bool(errors) == isinstance(found, SkillBroken)
        assert all(each.code in LINT for each in errors)
