"""Reading a skill's folder: a bare `SKILL.md` is enough, and whatever is wrong is said all at once."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.harness import PATIENCE, SKILLS
from tests.skills.folders import OBJECT, Json, skill_at
from turnkeeper.core.contract import ArtifactRule, FileInput
from turnkeeper.core.errors import SkillBroken, Warn
from turnkeeper.core.run import Mode
from turnkeeper.skills.package import load
from turnkeeper.skills.reader import MAX_FILE, MAX_FRONT
from turnkeeper.skills.yamltext import MAX_DEPTH, load_yaml

OUTPUT = "assets/output.schema.json"
MAX_ATTEMPT = "max_attempt must be a whole number from 1 to 1000000"
ID = "the id must be 1 to 64 letters, digits, '.', '_' or '-', and begin with a letter or digit"
EXAMPLES = Path(__file__).parents[2] / "examples" / "skills"


def problems(root: Path) -> list[str]:
    with pytest.raises(SkillBroken) as broken:
        load(root)
    assert broken.value.skill_id == root.name
    return broken.value.problems


@pytest.mark.parametrize("root", [*SKILLS.iterdir(), *EXAMPLES.iterdir()], ids=lambda root: root.name)
def test_our_own_skills_are_good(root: Path) -> None:
    assert load(root).id == root.name


class TestPlain:
    def test_skill_file_alone_is_a_skill(self, tmp_path: Path) -> None:
        skill = load(skill_at(tmp_path / "hello", "Say hello."))
        assert skill.is_plain
        assert (skill.id, skill.name, skill.version, skill.description) == ("hello", "hello", "0", "")
        assert skill.execution_modes == (Mode.AUTO, Mode.INTERACTIVE)
        assert skill.effective_engines(["a", "b"]) == ("a", "b")
        assert skill.output_schema is None
        assert skill.max_attempt is None

    def test_other_files_do_not_matter(self, tmp_path: Path) -> None:
        root = skill_at(tmp_path / "hello", files={"assets/output.schema.json": "{", "README.md": "x"})
        assert load(root).is_plain

    def test_empty_file_is_enough(self, tmp_path: Path) -> None:
        assert load(skill_at(tmp_path / "hello", "")).is_plain


class TestFrontMatter:
    @pytest.mark.parametrize(
        ("text", "name", "description"),
        [
            ("---\nname: nice\ndescription: Does it.\n---\nbody", "nice", "Does it."),
            ("\ufeff---\nname: nice\n---\n", "nice", ""),
            ("---\r\nname: nice\r\ndescription: Does it.\r\n---\r\nbody", "nice", "Does it."),
            ("---  \nname: nice\n  ---\n", "nice", ""),
            ("---\nname: nice\ndescription: >\n  one\n  two\n---\n", "nice", "one two"),
            ("---\nname: 5\ndescription: [a, b]\n---\n", "5", "['a', 'b']"),
            ("---\nname: 2026-01-01\n---\n", "2026-01-01", ""),
            ("---\nname:\ndescription: ''\n---\n", "it", ""),
            ("---\nname: nice\nlicense: MIT\nmetadata: {a: {b: c}}\nunknown: [1]\n---\n", "nice", ""),
            ("---\nname: nice\n", "it", ""),
            ("---\n---\n", "it", ""),
            ("---\n- a\n- list\n---\n", "it", ""),
            ("---\njust words\n---\n", "it", ""),
            ("# name: no\n---\nname: nice\n---\n", "it", ""),
        ],
    )
    def test_read_leniently(self, tmp_path: Path, text: str, name: str, description: str) -> None:
        skill = load(skill_at(tmp_path / "it", text))
        assert (skill.name, skill.description) == (name, description)

    @pytest.mark.parametrize(
        ("matter", "name", "description"),
        [
            ("name: nice\ndescription: Use it for this: that", "nice", "Use it for this: that"),
            ("name: nice\ndescription: @home and `there`", "nice", "@home and `there`"),
            ("name: nice\ndescription: 100%: [always", "nice", "100%: [always"),
            ("name: nice\n\tdescription: tabs", "nice", ""),
            ("name: nice\ndescription: !!bool perhaps", "nice", "!!bool perhaps"),
            ("name: nice\ndescription: !!python/object/apply:os.system ['true']", "nice", None),
        ],
    )
    def test_what_is_no_yaml_is_read_line_by_line(
        self, tmp_path: Path, matter: str, name: str, description: str | None
    ) -> None:
        """Many skills in the wild have a colon in their description and no quotes around it."""
        skill = load(skill_at(tmp_path / "it", f"---\n{matter}\n---\n"))
        assert skill.name == name
        if description is not None:
            assert skill.description == description

    @pytest.mark.failure("A11")
    def test_alias_bomb_does_not_go_off(self, tmp_path: Path) -> None:
        levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
        levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 20)]
        skill = load(skill_at(tmp_path / "it", "---\nname: bomb\n" + "\n".join(levels) + "\n---\n"))
        assert skill.name == "bomb"

    @pytest.mark.failure("A11")
    def test_endless_front_matter_is_refused_quickly(self, tmp_path: Path) -> None:
        matter = "\n".join(f"key{n}: value" for n in range(MAX_FRONT // 10))
        assert problems(skill_at(tmp_path / "it", f"---\n{matter}\n---\n")) == [
            f"SKILL.md: front matter is longer than {MAX_FRONT} characters"
        ]

    def test_long_body_is_not_front_matter(self, tmp_path: Path) -> None:
        assert load(skill_at(tmp_path / "it", "---\nname: nice\n---\n" + "word " * 100_000)).name == "nice"

    def test_bytes_that_are_no_text(self, tmp_path: Path) -> None:
        root = skill_at(tmp_path / "it")
        (root / "SKILL.md").write_bytes(b"---\nname: caf\xe9\n---\n\xff\xfe")
        assert load(root).name == "caf\ufffd"


class TestYaml:
    @pytest.mark.parametrize(
        "text",
        [
            "a: &x [1]\nb: *x",
            "!!bool perhaps",
            "!!int ''",
            "!!float ''",
            "!!timestamp soon",
            "!!python/name:os.system",
            "a: [",
            "? [a]\n: b",
            "a: \0",
            "a: " + "9" * 5000,
            "[" * 2000,
            "{" * 2000,
            "- " * 2000,
        ],
        ids=lambda text: text[:20],
    )
    @pytest.mark.failure("A11")
    def test_any_failure_is_a_value_error(self, text: str) -> None:
        with pytest.raises(ValueError, match=r"."):
            load_yaml(text)

    def test_depth_has_an_end(self) -> None:
        assert load_yaml("[" * MAX_DEPTH + "]" * MAX_DEPTH)
        with pytest.raises(ValueError, match=f"more than {MAX_DEPTH} levels"):
            load_yaml("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))

    def test_ordinary_values(self) -> None:
        assert load_yaml("a: 1\nb: [x, true, null]\nc: {d: 1.5}") == {
            "a": 1,
            "b": ["x", True, None],
            "c": {"d": 1.5},
        }


class TestRunner:
    def test_all_of_it(self, tmp_path: Path) -> None:
        runner = {
            "id": "other-id",
            "version": 2,
            "engines": ["codex", "demo"],
            "unsupported_engines": ["codex"],
            "execution_modes": ["interactive"],
            "max_attempt": 3,
            "schemas": {"input": "in.json", "parameter": "schemas/p.json", "output": OUTPUT},
            "artifacts": [
                {"role": "report", "pattern": "out/*.md", "mime": "text/markdown", "required": True},
                {"pattern": "**/*.png", "mime": 5, "required": "yes"},
            ],
            "entrypoint": {"prompts": {"codex": "Do it, {{name}}.", "default": "Go."}},
            "timeouts": {"turn_sec": 60, "idle_sec": 1.5},
        }
        files = {"in.json": {"type": "object"}, "schemas/p.json": {"type": "object"}, OUTPUT: OBJECT}
        skill = load(skill_at(tmp_path / "it", runner=runner, files=files))
        assert (skill.id, skill.version, skill.is_plain) == ("other-id", "2", False)
        assert skill.effective_engines(["demo", "codex", "gemini"]) == ("demo",)
        assert skill.execution_modes == (Mode.INTERACTIVE,)
        assert skill.max_attempt == 3
        assert (skill.input_schema, skill.parameter_schema) == ({"type": "object"}, {"type": "object"})
        assert skill.output_schema == OBJECT
        assert skill.artifacts == (
            ArtifactRule(role="report", pattern="out/*.md", mime="text/markdown", required=True),
            ArtifactRule(role="**/*.png", pattern="**/*.png"),
        )
        assert skill.prompts == {"codex": "Do it, {{name}}.", "default": "Go."}
        assert skill.timeouts == {"turn_sec": 60, "idle_sec": 1.5}
        assert skill.warnings == ()

    @pytest.mark.parametrize(
        "runner", [{}, {"schemas": None, "artifacts": None, "entrypoint": None}, {"unknown": 1}]
    )
    def test_everything_has_a_default(self, tmp_path: Path, runner: Json) -> None:
        skill = load(skill_at(tmp_path / "it", runner=runner))
        assert (skill.id, skill.version, skill.is_plain) == ("it", "0", False)
        assert skill.execution_modes == (Mode.AUTO, Mode.INTERACTIVE)

    def test_everything_that_is_wrong_is_said_at_once(self, tmp_path: Path) -> None:
        runner = {
            "engines": "demo",
            "unsupported_engines": [1],
            "execution_modes": ["auto", "manual", "batch"],
            "max_attempt": 0,
            "schemas": {"input": "in.json", "parameter": "nowhere.json", "output": OUTPUT},
            "artifacts": [
                {"pattern": "/etc/*"},
                {"role": "x"},
                "report.md",
                {"pattern": "a/../../b"},
                {"pattern": ""},
            ],
            "entrypoint": {"prompts": ["Go."]},
        }
        files = {"in.json": '{"type": "object"', OUTPUT: {"type": "array"}}
        assert problems(skill_at(tmp_path / "it", runner=runner, files=files)) == [
            "in.json: is not valid JSON (Expecting ',' delimiter: line 1 column 18 (char 17))",
            "nowhere.json: cannot be read (No such file or directory)",
            f"{OUTPUT}: an output schema must be of type object",
            "assets/runner.json: engines must be a list of names",
            "assets/runner.json: unsupported_engines must be a list of names",
            "assets/runner.json: execution_modes has unknown modes: manual, batch",
            "assets/runner.json: max_attempt must be a whole number from 1 to 1000000",
            *[
                f"assets/runner.json: artifacts[{number}] needs a pattern inside the workspace"
                for number in range(5)
            ],
            "assets/runner.json: entrypoint.prompts must map engine names to text",
        ]

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("{", "is not valid JSON"),
            ("", "is not valid JSON"),
            ("[]", "must hold a JSON object"),
            ("null", "must hold a JSON object"),
            ("[" * 100_000, "is not valid JSON"),
            ('{"a": ' + "9" * 5000 + "}", "is not valid JSON"),
            ("x" * (MAX_FILE + 1), "is larger than"),
        ],
        ids=lambda text: text[:20],
    )
    def test_runner_that_is_no_object(self, tmp_path: Path, text: str, problem: str) -> None:
        found = problems(skill_at(tmp_path / "it", runner=text))
        assert any(each.startswith(f"assets/runner.json: {problem}") for each in found)

    @pytest.mark.parametrize(
        ("key", "value", "problem"),
        [
            ("schemas", ["output.json"], "schemas must be an object"),
            ("schemas", "output.json", "schemas must be an object"),
            ("entrypoint", "go", "entrypoint must be an object"),
            ("artifacts", 5, "artifacts must be a list"),
            ("artifacts", "report.md", "artifacts must be a list"),
            ("artifacts", {"pattern": "*"}, "artifacts must be a list"),
            ("artifacts", [{"pattern": "//etc/*"}], "artifacts[0] needs a pattern inside the workspace"),
            ("artifacts", [{"pattern": "."}], "artifacts[0] needs a pattern inside the workspace"),
            ("engines", {"demo": 1}, "engines must be a list of names"),
            ("engines", "codex", "engines must be a list of names"),
            ("execution_modes", "auto", "execution_modes must be a list of names"),
            ("max_attempt", True, MAX_ATTEMPT),
            ("max_attempt", 1.5, MAX_ATTEMPT),
            ("max_attempt", "3", MAX_ATTEMPT),
            ("max_attempt", -1, MAX_ATTEMPT),
            ("max_attempt", 10**30, MAX_ATTEMPT),
            (
                "schemas",
                {"output": {"type": "object"}},
                "schemas.output must be the path of a file in the skill",
            ),
            ("schemas", {"input": 5}, "schemas.input must be the path of a file in the skill"),
            ("version", ["1"], "version must be text"),
            ("version", True, "version must be text"),
            *[
                ("id", value, ID)
                for value in (5, "", " ", "../x", ".x", "a/b", "a\nb", "é", "x" * 65, ["a"], "a b")
            ],
            ("entrypoint", {"prompts": {"codex": 5}}, "entrypoint.prompts must map engine names to text"),
        ],
    )
    def test_value_of_a_wrong_kind(self, tmp_path: Path, key: str, value: Any, problem: str) -> None:
        assert problems(skill_at(tmp_path / "it", runner={key: value})) == [f"assets/runner.json: {problem}"]

    @pytest.mark.parametrize(
        "given", [{"turn": 5}, {"idle_sec": 0}, {"idle_sec": True}, {"idle_sec": "5"}, {"idle_sec": 1e300}]
    )
    def test_timeout_that_is_none(self, tmp_path: Path, given: Json) -> None:
        (problem,) = problems(skill_at(tmp_path / "it", runner={"timeouts": given}))
        assert problem.startswith("assets/runner.json: timeouts takes seconds for first_byte_sec, ")
        assert problem.endswith(f"; wrong: {', '.join(given)}")


class TestSchemas:
    def of(self, tmp_path: Path, schema: Any) -> Path:
        return skill_at(tmp_path / "it", runner={"schemas": {"output": OUTPUT}}, files={OUTPUT: schema})

    @pytest.mark.parametrize(
        "schema",
        [
            {"type": "objekt"},
            {"type": "object", "properties": []},
            {"type": "object", "required": "answer"},
            {"type": "object", "properties": {"a": {"pattern": "("}}},
            {"type": "object", "$ref": "#/$defs/nowhere"},
        ],
    )
    def test_what_is_no_schema_is_refused(self, tmp_path: Path, schema: Json) -> None:
        (problem,) = problems(self.of(tmp_path, schema))
        assert problem.startswith(f"{OUTPUT}: is not a usable JSON Schema (")

    @pytest.mark.failure("A10")
    @pytest.mark.parametrize(
        "reference",
        [
            "https://example.com/schema.json",
            "http://127.0.0.1:1/schema.json",
            "file:///etc/passwd",
            "other.schema.json",
            "//example.com/schema.json",
        ],
    )
    def test_nothing_is_fetched_for_a_schema(self, tmp_path: Path, reference: str) -> None:
        (problem,) = problems(self.of(tmp_path, {"type": "object", "properties": {"a": {"$ref": reference}}}))
        assert problem.startswith(f"{OUTPUT}: is not a usable JSON Schema (")

    @pytest.mark.failure("C15")
    def test_the_marker_is_no_property_of_a_skill(self, tmp_path: Path) -> None:
        schema = {"type": "object", "properties": {"__SKILL_DONE__": {"type": "boolean"}}}
        (problem,) = problems(self.of(tmp_path, schema))
        assert "__SKILL_DONE__ belongs to the protocol" in problem

    @pytest.mark.failure("C11")
    @pytest.mark.parametrize(
        "schema", [{"type": "object"}, {"type": "object", "properties": {"a": {"type": "string"}}}]
    )
    def test_schema_that_takes_nothing_for_an_answer_is_warned_of(self, tmp_path: Path, schema: Json) -> None:
        (warning,) = load(self.of(tmp_path, schema)).warnings
        assert warning.code == Warn.OUTPUT_SCHEMA_TOO_LOOSE


class TestFileInputs:
    def of(self, tmp_path: Path, properties: Json, **more: Any) -> Path:
        schema = {"type": "object", "properties": properties, **more}
        return skill_at(tmp_path / "it", runner={"schemas": {"input": "in.json"}}, files={"in.json": schema})

    def test_files_are_told_from_the_rest(self, tmp_path: Path) -> None:
        one = {"type": "string", "x-input-source": "file"}
        many = {"type": "array", "items": {"type": "string"}, "x-input-source": "file"}
        deep = {"type": "object", "properties": {"inner": one}}
        properties = {"a": one, "b": many, "c": {"type": "string"}, "d": one, "e": deep, "f": True}
        assert load(self.of(tmp_path, properties, required=["b", "a", "c"])).file_inputs == (
            FileInput("a", required=True, many=False),
            FileInput("b", required=True, many=True),
            FileInput("d", required=False, many=False),
        )

    @pytest.mark.parametrize("source", ["inline", "File", "files", 5, None])
    def test_any_other_word_means_inline(self, tmp_path: Path, source: Any) -> None:
        assert load(self.of(tmp_path, {"a": {"type": "object", "x-input-source": source}})).file_inputs == ()

    def test_skill_without_an_input_schema_takes_no_files(self, tmp_path: Path) -> None:
        assert load(skill_at(tmp_path / "it")).file_inputs == ()
        assert load(skill_at(tmp_path / "it", runner={})).file_inputs == ()

    @pytest.mark.parametrize(
        "kind",
        [
            {},
            {"type": "object"},
            {"type": "integer"},
            {"type": ["string", "null"]},
            {"type": "array"},
            {"type": "array", "items": True},
            {"type": "array", "items": {"type": "object"}},
            {"$ref": "#/$defs/path"},
        ],
    )
    def test_file_is_a_string_or_a_list_of_strings(self, tmp_path: Path, kind: Json) -> None:
        root = self.of(tmp_path, {"a": {**kind, "x-input-source": "file"}}, **{"$defs": {"path": True}})
        assert problems(root) == ["in.json: a comes as a file, so it must be a string or a list of strings"]


class TestVersion:
    @pytest.mark.parametrize(
        ("matter", "version"),
        [
            ("name: it", "0"),
            ("version: 1.2.3", "1.2.3"),
            ("version: '2'", "2"),
            ("version: 2", "2"),
            ("version: 1.10", "1.10"),
            ("version:", "0"),
            ("version: ''", "0"),
            ("metadata:\n  version: 1.20", "1.20"),
            ("metadata: {version: 3.0.1, other: x}", "3.0.1"),
            ("metadata: {version: 1.50}", "1.5"),
            ("version: 4\nmetadata:\n  version: 5", "4"),
            ("metadata: [version]", "0"),
            ("version: 2026-01-01", "2026-01-01"),
            ("version: [1, 2]", "[1, 2]"),
            ("description: a: b\nversion: 1.10", "1.10"),
        ],
    )
    def test_plain_skill_has_that_of_its_front_matter(
        self, tmp_path: Path, matter: str, version: str
    ) -> None:
        assert load(skill_at(tmp_path / "it", f"---\n{matter}\n---\n")).version == version

    def test_word_of_the_runner_counts_more(self, tmp_path: Path) -> None:
        text = "---\nversion: 1.0\n---\n"
        assert load(skill_at(tmp_path / "it", text, runner={"version": "2.0"})).version == "2.0"
        assert load(skill_at(tmp_path / "it", text, runner={})).version == "1.0"


class TestOutside:
    """A skill is what is in its folder."""

    @pytest.mark.parametrize(
        "name", ["../out.json", "/etc/passwd", "assets/../../out.json", "link.json", "folder/out.json"]
    )
    def test_schema_outside_the_folder(self, tmp_path: Path, name: str) -> None:
        (tmp_path / "out.json").write_text(json.dumps(OBJECT))
        root = skill_at(tmp_path / "it", runner={"schemas": {"output": name}})
        (root / "link.json").symlink_to(tmp_path / "out.json")
        (root / "folder").symlink_to("..")
        assert problems(root) == [f"{name}: is outside the skill's folder"]

    def test_link_that_leads_to_itself(self, tmp_path: Path) -> None:
        """Python versions differ in how they say it."""
        root = skill_at(tmp_path / "it", runner={"schemas": {"output": "loop"}})
        (root / "loop").symlink_to("loop")
        (problem,) = problems(root)
        assert problem.startswith("loop: ")

    def test_runner_outside_the_folder(self, tmp_path: Path) -> None:
        (tmp_path / "runner.json").write_text("{}")
        root = skill_at(tmp_path / "it", files={"assets/x": ""})
        (root / "assets" / "runner.json").symlink_to(tmp_path / "runner.json")
        assert problems(root) == ["assets/runner.json: is outside the skill's folder"]

    @pytest.mark.parametrize("target", ["../SKILL.md", "/etc/passwd"])
    def test_skill_file_outside_the_folder(self, tmp_path: Path, target: str) -> None:
        (tmp_path / "SKILL.md").write_text("---\nname: other\n---\n")
        root = skill_at(tmp_path / "it")
        (root / "SKILL.md").unlink()
        (root / "SKILL.md").symlink_to(target)
        assert problems(root) == ["SKILL.md: is outside the skill's folder"]

    @pytest.mark.parametrize("name", ["SKILL.md", "assets/runner.json", OUTPUT])
    def test_folder_in_place_of_a_file(self, tmp_path: Path, name: str) -> None:
        root = skill_at(tmp_path / "it", runner={"schemas": {"output": OUTPUT}}, files={OUTPUT: OBJECT})
        (root / name).unlink()
        (root / name).mkdir()
        assert problems(root) == [f"{name}: cannot be read (not an ordinary file)"]

    def test_skill_file_that_is_not_there(self, tmp_path: Path) -> None:
        assert problems(tmp_path / "it") == ["SKILL.md: cannot be read (No such file or directory)"]

    def test_runner_that_leads_nowhere_does_not_make_a_plain_skill(self, tmp_path: Path) -> None:
        root = skill_at(tmp_path / "it", files={"assets/x": ""})
        (root / "assets" / "runner.json").symlink_to("gone.json")
        assert problems(root) == ["assets/runner.json: cannot be read (No such file or directory)"]

    def test_links_inside_the_folder_are_fine(self, tmp_path: Path) -> None:
        root = skill_at(tmp_path / "it", files={"assets/real.json": {"max_attempt": 2}})
        (root / "assets" / "runner.json").symlink_to("real.json")
        assert load(root).max_attempt == 2

    def test_folder_may_itself_be_a_link(self, tmp_path: Path) -> None:
        skill_at(tmp_path / "real", runner={"schemas": {"output": OUTPUT}}, files={OUTPUT: OBJECT})
        (tmp_path / "it").symlink_to("real")
        assert load(tmp_path / "it").output_schema == OBJECT

    @pytest.mark.parametrize("name", ["SKILL.md", "assets/runner.json"])
    def test_pipe_does_not_hold_us_up(self, tmp_path: Path, name: str) -> None:
        root = skill_at(tmp_path / "it", runner={})
        (root / name).unlink()
        os.mkfifo(root / name)
        found: list[str] = []
        reading = threading.Thread(target=lambda: found.extend(problems(root)), daemon=True)
        reading.start()
        reading.join(PATIENCE)
        assert f"{name}: cannot be read (not an ordinary file)" in found

    def test_sparse_file_does_not_fill_the_memory(self, tmp_path: Path) -> None:
        root = skill_at(tmp_path / "it")
        with (root / "SKILL.md").open("r+b") as file:
            file.truncate(1 << 40)
        assert problems(root) == [f"SKILL.md: is larger than {MAX_FILE} bytes"]
