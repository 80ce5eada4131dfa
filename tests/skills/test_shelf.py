"""The shelf of skills: found by name, read again when they change, and one that is broken hides no other."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.skills.folders import OBJECT, skill_at
from turnkeeper.core.errors import SkillBroken, SkillNotFound
from turnkeeper.skills.package import Shelf


def test_finds_by_folder_and_by_id(tmp_path: Path) -> None:
    skill_at(tmp_path / "one", runner={"id": "uno"})
    shelf = Shelf((tmp_path,))
    assert shelf.get("one") is shelf.get("uno") is shelf.get("one")


def test_unknown_one_names_the_others(tmp_path: Path) -> None:
    skill_at(tmp_path / "one", runner={"id": "uno"})
    skill_at(tmp_path / "two")
    skill_at(tmp_path / "broken", runner="{")
    with pytest.raises(SkillNotFound, match=r"no skill 'three'; installed are: two, uno$"):
        Shelf((tmp_path,)).get("three")
    with pytest.raises(SkillNotFound, match=r"installed are: none$"):
        Shelf((tmp_path / "nowhere",)).get("three")


def test_first_folder_wins(tmp_path: Path) -> None:
    skill_at(tmp_path / "a" / "it", "---\nname: first\n---\n")
    skill_at(tmp_path / "b" / "it", "---\nname: second\n---\n")
    shelf = Shelf((tmp_path / "a", tmp_path / "missing", tmp_path / "b"))
    assert shelf.get("it").name == "first"


def test_one_broken_skill_does_not_hide_the_others(tmp_path: Path) -> None:
    skill_at(tmp_path / "bad", runner="{", files={"assets/gone.json": "{}"})
    (tmp_path / "bad" / "assets" / "gone.json").unlink()
    (tmp_path / "bad" / "assets" / "gone.json").symlink_to("nowhere")
    skill_at(tmp_path / "good")
    (tmp_path / "no-skill").mkdir()
    (tmp_path / "file").write_text("x")
    found = list(Shelf((tmp_path,)).all())
    assert [(skill and skill.id, broken and broken.skill_id) for skill, broken in found] == [
        (None, "bad"),
        ("good", None),
    ]
    with pytest.raises(SkillBroken):
        Shelf((tmp_path,)).get("bad")


def test_names_are_never_paths(tmp_path: Path) -> None:
    skill_at(tmp_path / "inside" / "it")
    skill_at(tmp_path / "outside")
    shelf = Shelf((tmp_path / "inside",))
    for name in (
        "../outside",
        "../inside/it",
        "it/",
        "./it",
        "",
        ".",
        "..",
        "it\0",
        str(tmp_path / "outside"),
    ):
        with pytest.raises(SkillNotFound):
            shelf.get(name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("SKILL.md", "---\nname: new\n---\n"),
        (
            "assets/runner.json",
            '{"id": "it", "version": "new", "schemas": {"output": "deep/down/o.json"}}',
        ),
        ("deep/down/o.json", '{"type": "object", "required": ["new"]}'),
    ],
)
def test_changed_file_is_read_again(tmp_path: Path, name: str, text: str) -> None:
    runner = {"schemas": {"output": "deep/down/o.json"}}
    root = skill_at(tmp_path / "it", runner=runner, files={"deep/down/o.json": OBJECT})
    shelf = Shelf((tmp_path,))
    before = shelf.get("it")
    assert shelf.get("it") is before
    (root / name).write_text(text)
    after = shelf.get("it")
    assert "new" in (after.name, after.version, *(after.output_schema or {}).get("required", []))


def test_broken_one_is_read_again_when_it_is_mended(tmp_path: Path) -> None:
    root = skill_at(tmp_path / "it", runner={"schemas": {"output": "o.json"}})
    shelf = Shelf((tmp_path,))
    for _ in range(2):
        with pytest.raises(SkillBroken):
            shelf.get("it")
    (root / "o.json").write_text(json.dumps(OBJECT))
    assert shelf.get("it").output_schema == OBJECT


def test_runner_that_comes_or_goes_is_noticed(tmp_path: Path) -> None:
    root = skill_at(tmp_path / "it")
    shelf = Shelf((tmp_path,))
    assert shelf.get("it").is_plain
    skill_at(root, runner={})
    assert not shelf.get("it").is_plain
    (root / "assets" / "runner.json").unlink()
    assert shelf.get("it").is_plain


def test_file_swapped_for_another_of_the_same_age_and_size(tmp_path: Path) -> None:
    root = skill_at(tmp_path / "it", "---\nname: old\n---\n")
    shelf = Shelf((tmp_path,))
    assert shelf.get("it").name == "old"
    status = (root / "SKILL.md").stat()
    (root / "other").write_text("---\nname: new\n---\n")
    os.utime(root / "other", ns=(status.st_atime_ns, status.st_mtime_ns))
    (root / "other").rename(root / "SKILL.md")
    assert shelf.get("it").name == "new"
