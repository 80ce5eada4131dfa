"""The shelf of skills: found by name, read again when they change, and one that is broken hides no other."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.skills.folders import OBJECT, Json, skill_at
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


@pytest.mark.parametrize("first", [{"name": "same"}, {"name": "other", "runner": {"id": "same"}}])
@pytest.mark.parametrize("second", [{"name": "same"}, {"name": "third", "runner": {"id": "same"}}])
def test_of_one_id_only_the_first_is_there(tmp_path: Path, first: Json, second: Json) -> None:
    """Whoever lists the skills and then asks for one gets what was listed."""
    wanted = skill_at(tmp_path / "1" / first["name"], runner=first.get("runner"))
    skill_at(tmp_path / "2" / second["name"], runner=second.get("runner"))
    shelf = Shelf((tmp_path / "1", tmp_path / "2"))
    ((skill, broken),) = shelf.all()
    assert broken is None
    assert shelf.get("same") is skill
    assert shelf.get("same").root == str(wanted)


def test_of_one_id_in_one_folder_only_the_first_is_there(tmp_path: Path) -> None:
    skill_at(tmp_path / "a", runner={"id": "b"})
    skill_at(tmp_path / "b")
    shelf = Shelf((tmp_path,))
    ((skill, _),) = shelf.all()
    assert shelf.get("b") is skill
    assert shelf.get("b").root == str(tmp_path / "a")


def test_broken_one_keeps_its_place(tmp_path: Path) -> None:
    """Else a typing mistake would bring back, unnoticed, what it had replaced."""
    skill_at(tmp_path / "1" / "it", runner="{")
    skill_at(tmp_path / "2" / "it")
    shelf = Shelf((tmp_path / "1", tmp_path / "2"))
    ((skill, broken),) = shelf.all()
    assert skill is None
    assert broken is not None
    with pytest.raises(SkillBroken):
        shelf.get("it")


def test_id_counts_more_than_the_name_of_a_folder(tmp_path: Path) -> None:
    skill_at(tmp_path / "a", runner={"id": "b"})
    skill_at(tmp_path / "b", runner={"id": "c"})
    shelf = Shelf((tmp_path,))
    assert [skill and skill.id for skill, _ in shelf.all()] == ["b", "c"]
    assert shelf.get("b").root == str(tmp_path / "a")
    assert shelf.get("c").root == str(tmp_path / "b")
    assert shelf.get("a").root == str(tmp_path / "a")


def test_hidden_folders_are_not_looked_into(tmp_path: Path) -> None:
    skill_at(tmp_path / ".moving" / "new-1")
    skill_at(tmp_path / ".hidden")
    skill_at(tmp_path / "it")
    shelf = Shelf((tmp_path,))
    assert [skill and skill.id for skill, _ in shelf.all()] == ["it"]
    with pytest.raises(SkillNotFound):
        shelf.get(".hidden")


def test_what_is_not_there_or_no_folder_holds_no_skills(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "loop").symlink_to("loop")
    skill_at(tmp_path / "good" / "it")
    (tmp_path / "good" / "loop").symlink_to("loop")
    folders = tuple(tmp_path / name for name in ("file", "nowhere", "loop", "good", "a\0b"))
    assert [skill and skill.id for skill, _ in Shelf(folders).all()] == ["it"]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable for root")
def test_unreadable_folders_hide_no_others(tmp_path: Path) -> None:
    for name in ("closed", "open"):
        skill_at(tmp_path / name / "a")
        skill_at(tmp_path / name / "b")
    (tmp_path / "closed").chmod(0)
    (tmp_path / "open" / "a").chmod(0)
    try:
        found = list(Shelf((tmp_path / "closed", tmp_path / "open")).all())
    finally:
        (tmp_path / "closed").chmod(0o700)
        (tmp_path / "open" / "a").chmod(0o700)
    assert [skill and skill.id for skill, _ in found] == ["b"]


@pytest.mark.parametrize("kind", ["pipe", "folder", "link"])
def test_skill_file_that_is_no_file_makes_a_broken_skill(tmp_path: Path, kind: str) -> None:
    (tmp_path / "it").mkdir()
    path = tmp_path / "it" / "SKILL.md"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("gone")
    ((skill, broken),) = Shelf((tmp_path,)).all()
    assert skill is None
    assert broken is not None
    assert broken.skill_id == "it"


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
