"""The words that open a turn: each placeholder filled once, and what a person wrote left as it is."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from turnkeeper.core import lifecycle
from turnkeeper.core.run import Job, Profile, Run
from turnkeeper.core.skill import Skill
from turnkeeper.core.waiting import ProfileKind
from turnkeeper.skills import prompt


def run(name: str = "Bees", prompts: dict[str, str] | None = None, **more: Any) -> Run:
    profile = Profile(ProfileKind.RESUMABLE, "because")
    skill = Skill(
        id="s", version="1", name=name, description="", root="/s", is_plain=False, prompts=prompts or {}
    )
    contract = skill.contract("demo")
    job = Job(skill_id="s", skill_version="1", contract=contract, engine="demo", profile=profile, **more)
    return lifecycle.create("r1", job, datetime(2026, 1, 1, tzinfo=UTC)).after


def test_start_says_what_there_is_to_do() -> None:
    words = prompt.start(run(input={"title": "Bienen – ü"}, parameter={"n": 1}), Path("/run/skill"))
    assert '"Bees"' in words
    assert "/run/skill/SKILL.md" in words
    assert '"title": "Bienen – ü"' in words
    assert '"n": 1' in words
    assert "{{" not in words


@pytest.mark.parametrize(
    ("prompts", "words"),
    [
        ({"demo": "For demo, {{name}}.", "default": "For all."}, "For demo, Bees."),
        ({"codex": "For codex.", "default": "For all: {{skill_file}}"}, "For all: /run/skill/SKILL.md"),
        ({"demo": "No placeholder."}, "No placeholder."),
        (
            {"demo": "{{name}} {{name}} {{ name }} {name} {{unknown}}"},
            "Bees Bees {{ name }} {name} {{unknown}}",
        ),
    ],
)
def test_skill_may_have_words_of_its_own(prompts: dict[str, str], words: str) -> None:
    assert prompt.start(run(prompts=prompts), Path("/run/skill")) == words


def test_uploaded_files_are_part_of_the_input() -> None:
    uploaded = replace(run(input={"title": "Bees"}), files={"paper": "uploads/paper.pdf"})
    words = prompt.start(uploaded, Path("/run/skill"))
    assert '"title": "Bees"' in words
    assert '"paper": "uploads/paper.pdf"' in words


def test_placeholder_inside_a_value_stays_as_it_is() -> None:
    tricky = {"title": "{{name}} {{parameter}} {{skill_file}} \\1 \\g<0>"}
    words = prompt.start(run("{{input}}", {"demo": "{{name}}|{{input}}"}, input=tricky), Path("/x"))
    name, _, given = words.partition("|")
    assert name == "{{input}}"
    assert "{{name}} {{parameter}} {{skill_file}}" in given


def test_reply_after_a_cut_off_is_repeated_as_it_was() -> None:
    words = prompt.cut_off("blue {{text}} {{name}} \\g<text>")
    assert words.rstrip("\n").endswith("blue {{text}} {{name}} \\g<text>")
    assert words.count("blue") == 1
    assert "cut off" in words
