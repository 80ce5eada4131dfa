"""The library: skills come by upload, are replaced by higher versions and removed, whole or not at all."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.skills.archives import Member, build, zipped
from tests.skills.crashes import versioned
from tests.skills.folders import OBJECT, skill_at
from turnkeeper.core.errors import (
    ArchiveRefused,
    SkillBroken,
    SkillNotFound,
    SkillNotManaged,
    SkillVersionNotHigher,
    TurnkeeperError,
)
from turnkeeper.core.skill import Skill
from turnkeeper.skills.install import Library
from turnkeeper.skills.package import Shelf

ROOT = Path(__file__).parents[2]


@pytest.fixture
def managed(tmp_path: Path) -> Path:
    return tmp_path / "data" / "skills"


@pytest.fixture
def operators(tmp_path: Path) -> Path:
    return tmp_path / "operators"


@pytest.fixture
def shelf(managed: Path, operators: Path) -> Shelf:
    return Shelf((managed, operators))


@pytest.fixture
def library(managed: Path, shelf: Shelf) -> Library:
    return Library(managed, shelf)


def install(library: Library, data: bytes) -> Skill:
    return library.install(io.BytesIO(data))


def packed(version: str = "1", skill_id: str = "it", **more: Any) -> bytes:
    runner = json.dumps({"id": skill_id, "version": version} | more)
    return zipped({"SKILL.md": f"Do {version}.", "assets/runner.json": runner})


def assert_nothing_left(managed: Path, *skills: str) -> None:
    assert sorted(path.name for path in managed.iterdir() if path.name != ".moving") == sorted(skills)
    assert not list((managed / ".moving").iterdir())


def test_installed_skill_is_on_the_shelf(library: Library, shelf: Shelf, managed: Path) -> None:
    skill = install(library, packed("1.2"))
    assert (skill.id, skill.version, skill.root) == ("it", "1.2", str(managed / "it"))
    assert shelf.get("it") == skill
    assert_nothing_left(managed, "it")
    assert {
        stat.S_IMODE(path.stat().st_mode) for path in (managed, managed / "it", managed / "it/assets")
    } == {0o700}


RUNNER = json.dumps({"id": "by-runner"})
NAMED = "---\nname: by-front-matter\n---\n"


@pytest.mark.parametrize(
    ("files", "skill_id"),
    [
        ({"SKILL.md": NAMED, "assets/runner.json": RUNNER}, "by-runner"),
        ({"top/SKILL.md": NAMED, "top/assets/runner.json": RUNNER}, "by-runner"),
        ({"top/SKILL.md": NAMED, "top/assets/runner.json": "{}"}, "top"),
        ({"top/SKILL.md": NAMED}, "top"),
        ({"top/": "", "top/SKILL.md": "", "top/docs/SKILL.md": ""}, "top"),
        ({"SKILL.md": NAMED}, "by-front-matter"),
        ({"SKILL.md": NAMED, "assets/runner.json": "{}"}, "by-front-matter"),
        ({"SKILL.md": NAMED, "docs/SKILL.md": ""}, "by-front-matter"),
    ],
    ids=lambda value: value if isinstance(value, str) else "+".join(value),
)
def test_name_is_the_runners_the_folders_or_the_front_matters(
    library: Library, shelf: Shelf, managed: Path, files: dict[str, str], skill_id: str
) -> None:
    assert install(library, zipped(files)).id == skill_id
    assert [skill and skill.id for skill, _ in shelf.all()] == [skill_id]
    assert_nothing_left(managed, skill_id)


def test_what_a_mac_adds_is_dropped(library: Library, managed: Path) -> None:
    files = {
        "top/SKILL.md": "",
        "top/.DS_Store": "x",
        "top/docs/.DS_Store": "x",
        "top/docs/a.md": "",
        ".DS_Store": "x",
        "__MACOSX/top/._SKILL.md": "x",
    }
    assert install(library, zipped(files)).id == "top"
    found = {path.relative_to(managed / "top").as_posix() for path in (managed / "top").rglob("*")}
    assert found == {"SKILL.md", "docs", "docs/a.md"}


def test_scripts_of_a_skill_stay_executable(library: Library, managed: Path) -> None:
    install(library, build(Member("s/SKILL.md"), Member("s/run.sh", b"#!", mode=stat.S_IFREG | 0o755)))
    assert os.access(managed / "s" / "run.sh", os.X_OK)
    assert not os.access(managed / "s" / "SKILL.md", os.X_OK)


@pytest.mark.failure("A05")
@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({}, "found: none"),
        ({"README.md": ""}, "found: none"),
        ({"a/SKILL.md": "", "b/x": ""}, "found: a/SKILL.md"),
        ({"a/SKILL.md": "", "b/SKILL.md": ""}, "found: a/SKILL.md, b/SKILL.md"),
        ({"a/b/SKILL.md": ""}, "found: a/b/SKILL.md"),
        ({"skill.md": ""}, "found: skill.md"),
        ({"a/Skill.MD": ""}, "found: a/Skill.MD"),
        ({"SKILL.md/x": ""}, "found: SKILL.md"),
        ({"my skill/SKILL.md": ""}, "the id"),
        ({".hidden/SKILL.md": ""}, "the id"),
        ({"SKILL.md": "no name at all"}, "the id"),
        ({"SKILL.md": "---\nname: Not an id!\n---"}, "the id"),
        ({"SKILL.md": "", "assets/runner.json": '{"id": "../evil"}'}, "the id"),
        ({"SKILL.md": "", "assets/runner.json": '{"id": ".moving"}'}, "the id"),
        ({"SKILL.md": "", "assets/runner.json": '{"id": "(unnamed)"}'}, "the id"),
        ({"SKILL.md": "", "assets/runner.json": json.dumps({"id": "x" * 65})}, "the id"),
        ({"SKILL.md": "", "assets/runner.json": json.dumps({"id": "a\nb"})}, "the id"),
        ({"a/SKILL.md": "", "a/assets/runner.json": "{"}, "is not valid JSON"),
    ],
    ids=str,
)
def test_unusable_package_says_what_is_wrong(
    library: Library, managed: Path, files: dict[str, str], problem: str
) -> None:
    with pytest.raises(SkillBroken) as broken:
        install(library, zipped(files))
    assert problem in "; ".join(broken.value.problems)
    assert len(broken.value.message) < 1000
    assert_nothing_left(managed)


def test_everything_wrong_is_listed(library: Library, managed: Path) -> None:
    data = packed(max_attempt=0, schemas={"output": "gone.json"}, timeouts={"never": 1})
    with pytest.raises(SkillBroken) as broken:
        install(library, data)
    assert len(broken.value.problems) == 3
    assert_nothing_left(managed)


def test_hostile_archive_leaves_nothing(library: Library, managed: Path) -> None:
    with pytest.raises(ArchiveRefused):
        install(library, build(Member("SKILL.md", b"x"), Member("../evil", b"x")))
    assert_nothing_left(managed)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("1", "2"),
        ("1.9", "1.10"),
        ("1.0", "1.0.1"),
        ("0", "0.0.1"),
        ("1.2.3", "2"),
        ("007", "8"),
        ("1", "999999999"),
    ],
)
def test_higher_version_replaces(
    library: Library, shelf: Shelf, managed: Path, before: str, after: str
) -> None:
    install(
        library,
        zipped({"it/SKILL.md": "", "it/gone.txt": "", "it/assets/runner.json": f'{{"version": "{before}"}}'}),
    )
    assert shelf.get("it").version == before
    install(library, packed(after))
    assert shelf.get("it").version == after
    assert not (managed / "it" / "gone.txt").exists()
    assert_nothing_left(managed, "it")


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("2", "1", "not higher"),
        ("1", "1", "not higher"),
        ("1.0", "1", "not higher"),
        ("1", "1.0.0", "not higher"),
        ("1.10", "1.9", "not higher"),
        ("1.0", "2.0-beta", "cannot be compared"),
        ("beta", "2", "cannot be compared"),
        ("1", "v2", "cannot be compared"),
        ("1", "2.", "cannot be compared"),
        ("1", "1" * 5000, "cannot be compared"),
        ("1", "²", "cannot be compared"),
    ],
)
def test_other_versions_do_not(
    library: Library, shelf: Shelf, managed: Path, before: str, after: str, why: str
) -> None:
    install(library, packed(before))
    with pytest.raises(SkillVersionNotHigher, match=why) as refusal:
        install(library, packed(after))
    assert before in refusal.value.message
    assert refusal.value.facts["installed_version"] == before
    assert str(refusal.value.facts["version"])[:9] == after[:9]
    assert len(refusal.value.message) < 1000
    assert shelf.get("it").version == before
    assert_nothing_left(managed, "it")


def test_plain_skill_has_no_version_to_raise(library: Library) -> None:
    install(library, zipped({"plain/SKILL.md": "old"}))
    with pytest.raises(SkillVersionNotHigher, match="remove the skill first"):
        install(library, zipped({"plain/SKILL.md": "new"}))


def test_broken_one_is_replaced_by_any_version(library: Library, shelf: Shelf, managed: Path) -> None:
    install(library, packed("2"))
    (managed / "it" / "assets" / "runner.json").write_text("{")
    install(library, packed("1"))
    assert shelf.get("it").version == "1"


@pytest.mark.parametrize("folder", ["it", "other-name"])
def test_operators_skill_is_not_touched(
    library: Library, operators: Path, managed: Path, folder: str
) -> None:
    skill_at(operators / folder, runner={"id": "it", "version": "1"})
    with pytest.raises(SkillNotManaged) as refusal:
        install(library, packed("2"))
    assert refusal.value.facts == {"folder": str(operators)}
    assert str(operators) in refusal.value.message
    with pytest.raises(SkillNotManaged):
        library.remove("it")
    assert (operators / folder / "SKILL.md").exists()
    assert_nothing_left(managed)


def test_operators_folder_name_counts_too(library: Library, operators: Path) -> None:
    skill_at(operators / "it", runner={"id": "something-else"})
    with pytest.raises(SkillNotManaged):
        install(library, packed())


def test_operators_broken_skill_is_not_touched(library: Library, operators: Path) -> None:
    skill_at(operators / "it", runner="{")
    with pytest.raises(SkillNotManaged, match="broken there"):
        install(library, packed())
    with pytest.raises(SkillNotManaged, match="broken there"):
        library.remove("it")


def test_removed_skill_is_gone(library: Library, shelf: Shelf, managed: Path) -> None:
    install(library, packed("2"))
    install(library, packed("1", "other"))
    library.remove("it")
    with pytest.raises(SkillNotFound):
        shelf.get("it")
    assert_nothing_left(managed, "other")
    assert install(library, packed("1")).version == "1"
    assert shelf.get("it").version == "1"


def test_broken_skill_can_be_removed(library: Library, managed: Path) -> None:
    install(library, packed())
    (managed / "it" / "assets" / "runner.json").write_text("{")
    library.remove("it")
    assert_nothing_left(managed)


def test_copy_of_an_operators_skill_can_be_removed(library: Library, shelf: Shelf, operators: Path) -> None:
    install(library, packed("1"))
    skill_at(operators / "it", runner={"version": "9"})
    library.remove("it")
    assert shelf.get("it").version == "9"


@pytest.mark.parametrize(
    "name", ["it", "..", ".", "", ".moving", "../outside", "it/", "/etc", "a\0b", "x" * 5000]
)
def test_only_a_skill_can_be_removed(library: Library, managed: Path, name: str) -> None:
    install(library, packed("1", "other"))
    skill_at(managed.parent / "outside")
    with pytest.raises(SkillNotFound) as refusal:
        library.remove(name)
    assert len(refusal.value.message) < 400
    assert (managed.parent / "outside" / "SKILL.md").exists()
    assert_nothing_left(managed, "other")


def test_nothing_is_removed_from_an_empty_library(library: Library, managed: Path) -> None:
    with pytest.raises(SkillNotFound):
        library.remove("it")
    library.repair()
    assert not managed.exists()


def test_shelf_gives_the_new_one_at_once(library: Library, shelf: Shelf) -> None:
    for version in range(1, 20):
        files = {
            "SKILL.md": "same",
            "assets/runner.json": json.dumps({"id": "it", "version": f"{version:02}"}),
        }
        installed = install(library, zipped(files))
        assert shelf.get("it") == installed
        assert [skill and skill.version for skill, _ in shelf.all()] == [f"{version:02}"]


def test_schemas_of_the_new_one_are_checked_in_its_place(library: Library, shelf: Shelf) -> None:
    runner = json.dumps({"id": "it", "schemas": {"output": "assets/o.json"}})
    install(
        library, zipped({"SKILL.md": "", "assets/runner.json": runner, "assets/o.json": json.dumps(OBJECT)})
    )
    assert shelf.get("it").output_schema == OBJECT


def test_nothing_on_its_way_is_ever_on_the_shelf(library: Library, shelf: Shelf, managed: Path) -> None:
    install(library, packed())
    for name in ("old-it", "gone-1", "new-1/(unnamed)", "new-2/(unnamed)/top"):
        skill_at(managed / ".moving" / name, runner={"id": "ghost"})
    assert [skill and skill.id for skill, _ in shelf.all()] == ["it"]


class Disk:
    """Fails at the given renames, counted from one."""

    def __init__(self, *failing: int) -> None:
        self._failing = failing
        self._rename: Callable[..., None] = os.rename
        self.renames = 0

    def rename(self, source: Path, target: Path) -> None:
        self.renames += 1
        if self.renames in self._failing:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._rename(source, target)


@pytest.mark.failure("V03")
@pytest.mark.parametrize("failing", [(1,), (2,)])
def test_old_one_stays_if_the_new_one_cannot_take_its_place(
    library: Library, shelf: Shelf, managed: Path, monkeypatch: pytest.MonkeyPatch, failing: tuple[int]
) -> None:
    install(library, packed("1"))
    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", Disk(*failing).rename)
        with pytest.raises(OSError, match="No space left"):
            install(library, packed("2"))
    assert shelf.get("it").version == "1"
    assert_nothing_left(managed, "it")


def test_repair_brings_back_what_could_not_be_put_back(
    library: Library, shelf: Shelf, managed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(library, packed("1"))
    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", Disk(2, 3).rename)
        with pytest.raises(OSError, match="No space left"):
            install(library, packed("2"))
    assert not list(shelf.all())
    library.repair()
    assert shelf.get("it").version == "1"
    assert_nothing_left(managed, "it")


def test_removed_skill_does_not_come_back_by_repair(
    library: Library, managed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(library, packed("1"))
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", lambda path, **how: None)  # nothing can be deleted
        install(library, packed("2"))
        assert (managed / ".moving" / "old-it").exists()
    library.remove("it")
    library.repair()
    assert_nothing_left(managed)


def test_repair_goes_on_past_what_it_cannot_mend(
    library: Library, shelf: Shelf, managed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        skill_at(managed / ".moving" / f"old-{name}")
    skill_at(managed / ".moving" / "gone-1")
    monkeypatch.setattr(os, "rename", Disk(1).rename)
    library.repair()
    assert [skill and skill.id for skill, _ in shelf.all()] == ["b"]
    assert [path.name for path in (managed / ".moving").iterdir()] == ["old-a"]


@pytest.mark.failure("A06", "V01")
@pytest.mark.parametrize(
    ("act", "before", "after", "fewest"),
    [("install", [], ["1"], 10), ("replace", ["1"], ["2"], 15), ("remove", ["1"], [], 3)],
)
def test_cut_off_anywhere_it_is_the_old_or_the_new(
    tmp_path: Path, act: str, before: list[str], after: list[str], fewest: int
) -> None:
    """A process is killed before each of its steps on the disk; then the service starts again."""
    command = [sys.executable, "-m", "tests.skills.crashes", str(tmp_path), act]
    said = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True).stdout
    steps = [json.loads(line) for line in said.splitlines()]
    found = [step["found"] for step in steps]
    turned = found.index(after)
    assert found == [before] * turned + [after] * (len(found) - turned)
    assert 0 < turned < len(steps) - 1, "cut off both before and after the moment that counts"
    assert len(steps) > fewest
    assert [step["was_cut_off"] for step in steps] == [True] * (len(steps) - 1) + [False]
    assert not any(step["left"] for step in steps)


def test_of_two_at_once_one_wins(library: Library, shelf: Shelf, managed: Path) -> None:
    for version in range(1, 11):
        start = threading.Barrier(4)

        def race(data: bytes, start: threading.Barrier = start) -> str:
            start.wait()
            try:
                return install(library, data).version
            except TurnkeeperError as refusal:
                return refusal.code.value

        with ThreadPoolExecutor(4) as threads:
            ended = sorted(threads.map(race, [versioned(str(version))] * 4))
        assert ended == [str(version), *["SKILL_VERSION_NOT_HIGHER"] * 3]
        assert {path.read_text() for path in (managed / "it" / "notes").iterdir()} == {str(version)}
    assert_nothing_left(managed, "it")


def test_who_holds_the_lock_reads_one_version(library: Library, shelf: Shelf, tmp_path: Path) -> None:
    install(library, versioned("1"))
    is_over = threading.Event()
    mixed: list[set[str]] = []

    def copy() -> int:
        copies = 0
        while not is_over.is_set() or not copies:
            with shelf.lock:
                shutil.copytree(shelf.get("it").root, tmp_path / "copy")
            texts = {
                path.read_text() for path in (tmp_path / "copy").rglob("*") if path.suffix in (".md", ".txt")
            }
            mixed.extend([texts] if len(texts) != 1 else [])
            shutil.rmtree(tmp_path / "copy")
            copies += 1
        return copies

    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(copy)
        for version in range(2, 30):
            install(library, versioned(str(version)))
        is_over.set()
        assert reading.result()
    assert not mixed


def test_who_asks_while_it_is_replaced_gets_one_or_the_other(library: Library, shelf: Shelf) -> None:
    install(library, versioned("1"))
    is_over = threading.Event()

    def ask() -> list[str]:
        versions: list[str] = []
        while not is_over.is_set() or not versions:
            versions.append(shelf.get("it").version)
            assert [skill.id for skill, _ in shelf.all() if skill] == ["it"]
        return versions

    with ThreadPoolExecutor(2) as threads:
        asking = [threads.submit(ask) for _ in range(2)]
        for version in range(2, 20):
            install(library, versioned(str(version)))
        is_over.set()
        for versions in (asked.result() for asked in asking):
            assert sorted(versions, key=int) == versions
