"""The patch of a run's `SKILL.md`: five modules in a fixed order. `golden/` shows each as an agent reads it.

`UPDATE_GOLDEN=1 make test` writes the files anew; read the difference before you keep it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from turnkeeper.core.contract import ArtifactRule, Contract
from turnkeeper.core.run import Mode
from turnkeeper.skills import patch
from turnkeeper.skills.words import fragment, render

GOLDEN = Path(__file__).parent / "golden"
SKILL = b"---\nname: letter\ndescription: Writes a letter.\n---\n\n# Letter\n\nWrite the letter.\n"
SCHEMA = {
    "type": "object",
    "required": ["title"],
    "properties": {"title": {"type": "string", "description": "„short“"}},
    "additionalProperties": False,
}
ARTIFACTS = (
    ArtifactRule(role="letter", pattern="letter.md", mime="text/markdown", required=True),
    ArtifactRule(role="drafts/*.md", pattern="drafts/*.md"),
)
WHERE = patch.Where(Path("/run/workspace"), Path("/run/home/skills/letter"))
QUESTION_FIELDS = re.compile(r"\b(kind|prompt|options|ui_hints)\b|ASK_USER", re.IGNORECASE)

CONTRACTS = {
    "bare": Contract(name="letter", is_plain=False),
    "artifacts": Contract(name="letter", is_plain=False, artifacts=ARTIFACTS),
    "schema": Contract(name="letter", is_plain=False, output_schema=SCHEMA),
    "artifacts-schema": Contract(name="letter", is_plain=False, output_schema=SCHEMA, artifacts=ARTIFACTS),
    "plain": Contract(name="letter", is_plain=True),
}
CASES = [(mode, name) for mode in Mode for name in CONTRACTS]


def words(mode: Mode, name: str) -> str:
    return patch.patched(SKILL, CONTRACTS[name], mode, WHERE).decode()


@pytest.mark.parametrize(("mode", "name"), CASES)
def test_the_agent_reads_exactly_this(mode: Mode, name: str) -> None:
    path = GOLDEN / f"{mode.value}-{name}.md"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(words(mode, name), encoding="utf-8")
    assert words(mode, name) == path.read_text(encoding="utf-8")


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == {f"{mode.value}-{name}" for mode, name in CASES}


@pytest.mark.parametrize(("mode", "name"), CASES)
def test_modules_come_in_their_order(mode: Mode, name: str) -> None:
    contract = CONTRACTS[name]
    wanted = [
        "runtime",
        *(["artifacts"] if contract.artifacts else []),
        "output_json" if contract.output_schema else "output_text",
        *(["output_schema"] if contract.output_schema else []),
        f"mode_{mode.value}",
    ]
    headings = re.findall(r"^## .*$", words(mode, name), re.MULTILINE)
    assert headings == [fragment(module).splitlines()[0] for module in wanted]


@pytest.mark.parametrize(("mode", "name"), CASES)
def test_every_placeholder_is_rendered(mode: Mode, name: str) -> None:
    assert "{{" not in words(mode, name)


@pytest.mark.parametrize("name", CONTRACTS)
def test_modes_exclude_each_other(name: str) -> None:
    auto, interactive = words(Mode.AUTO, name), words(Mode.INTERACTIVE, name)
    assert fragment("mode_auto").strip() in auto
    assert fragment("mode_auto").strip() not in interactive
    assert fragment("mode_interactive").strip() in interactive
    assert fragment("mode_interactive").strip() not in auto
    assert not QUESTION_FIELDS.search(auto)


def test_what_the_skill_says_comes_first_and_unchanged() -> None:
    latin = b"\xef\xbb\xbf# Stra\xdfe\r\n"
    assert patch.patched(latin, CONTRACTS["bare"], Mode.AUTO, WHERE).startswith(latin.rstrip())


def test_placeholder_of_a_skill_is_not_ours_to_fill() -> None:
    contract = Contract(
        name="x", is_plain=False, output_schema={"type": "object", "title": "{{workspace}} {{schema}}"}
    )
    text = patch.patched(b"Say {{workspace}}.", contract, Mode.AUTO, WHERE).decode()
    assert text.startswith("Say {{workspace}}.")
    assert '"title": "{{workspace}} {{schema}}"' in text


def test_forgotten_value_is_a_fault() -> None:
    with pytest.raises(KeyError):
        render("runtime", workspace="/w")
