"""A run's own folder: a copy that nothing outside can change, and a home that nothing leads out of."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from tests.skills.folders import skill_at
from turnkeeper.skills.image import Images
from turnkeeper.skills.package import load
from turnkeeper.skills.workspace import RunFolder, discard


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "runs" / "r1")


def tree(root: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): f"-> {path.readlink()}" if path.is_symlink() else path.read_text()
        for path in sorted(root.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def frozen(folder: RunFolder, root: Path) -> Path:
    """The run's copy of the skill, patched by a line at its end."""
    at = folder.home / ".agent" / "skills" / root.name
    folder.make()
    folder.copy_skill(root, Images(), lambda text: text + b" And more.")
    folder.place_skill(at)
    return at


class TestFreeze:
    def test_copy_outlives_the_original(self, tmp_path: Path, folder: RunFolder) -> None:
        root = skill_at(tmp_path / "it", "old", runner={"version": "1"})
        copy = frozen(folder, root)
        shutil.rmtree(root)
        assert (copy / "SKILL.md").read_text() == "old And more."
        assert load(copy).version == "1"

    def test_nothing_is_shared_with_the_original(self, tmp_path: Path, folder: RunFolder) -> None:
        """The agent may write to its copy; hard links would carry that back."""
        root = skill_at(tmp_path / "it", runner={})
        copy = frozen(folder, root)
        assert (root / "SKILL.md").read_text() == "Do it."
        for path in root.rglob("*"):
            if path.is_file():
                assert path.stat().st_nlink == 1
                assert path.stat().st_ino != (copy / path.relative_to(root)).stat().st_ino

    def test_links_stay_links(self, tmp_path: Path, folder: RunFolder) -> None:
        root = skill_at(tmp_path / "it", files={"real.txt": "real", "sub/x": ""})
        (root / "near").symlink_to("real.txt")
        (root / "far").symlink_to("/etc/passwd")
        (root / "sub" / "folder").symlink_to("/etc")
        (root / "broken").symlink_to("nowhere")
        assert tree(frozen(folder, root)) == tree(root) | {"SKILL.md": "Do it. And more."}

    def test_patching_never_writes_through_a_link(self, tmp_path: Path, folder: RunFolder) -> None:
        root = skill_at(tmp_path / "it")
        (root / "SKILL.md").rename(tmp_path / "shared.md")
        (root / "SKILL.md").symlink_to(tmp_path / "shared.md")
        copy = frozen(folder, root)
        assert (tmp_path / "shared.md").read_text() == "Do it."
        assert not (copy / "SKILL.md").is_symlink()
        assert (copy / "SKILL.md").read_text() == "Do it. And more."

    def test_read_only_folder_can_be_patched(self, tmp_path: Path, folder: RunFolder) -> None:
        root = skill_at(tmp_path / "it", files={"sub/x": "x"})
        (root / "SKILL.md").chmod(0o400)
        for path in (root / "sub", root):
            path.chmod(0o500)
        for _ in range(2):
            copy = frozen(folder, root)
            assert (copy / "SKILL.md").read_text() == "Do it. And more."
            assert stat.S_IMODE((copy / "sub").stat().st_mode) == 0o700

    def test_half_a_copy_is_never_taken_for_a_whole(self, tmp_path: Path, folder: RunFolder) -> None:
        """A crash leaves the name of the copy free, and its leavings are cleared away."""
        root = skill_at(tmp_path / "it", "whole", runner={})
        half = folder.root / "skill.new"
        half.mkdir(parents=True)
        (half / "rest").write_text("x")
        assert tree(frozen(folder, root)) == tree(root) | {"SKILL.md": "whole And more."}
        assert not half.exists()

    def test_failed_copy_leaves_no_skill(self, tmp_path: Path, folder: RunFolder) -> None:
        root = skill_at(tmp_path / "it")
        os.mkfifo(root / "pipe")
        with pytest.raises(OSError, match="named pipe"):
            frozen(folder, root)
        assert not list(folder.home.rglob("SKILL.md"))
        (root / "pipe").unlink()
        assert (frozen(folder, root) / "SKILL.md").is_file()

    def test_only_the_owner_can_look_inside(self, folder: RunFolder) -> None:
        folder.make()
        for path in (folder.root, folder.workspace, folder.home):
            assert stat.S_IMODE(path.stat().st_mode) == 0o700


class TestHome:
    @pytest.fixture(autouse=True)
    def prepared(self, tmp_path: Path, folder: RunFolder) -> None:
        folder.make()

    def test_files_are_written_for_the_owner_only(self, folder: RunFolder) -> None:
        folder.write_home({".demo/job.json": b"{}", "deep/down/here": b"x"})
        assert tree(folder.home) == {".demo/job.json": "{}", "deep/down/here": "x"}
        for name in (".demo/job.json", "deep/down/here"):
            assert stat.S_IMODE((folder.home / name).stat().st_mode) == 0o600

    def test_old_file_is_replaced_whole(self, folder: RunFolder) -> None:
        folder.write_home({"config": b"a long first version"})
        with (folder.home / "config").open() as still_open:
            folder.write_home({"config": b"short"})
            assert still_open.read() == "a long first version"
        assert tree(folder.home) == {"config": "short"}

    def test_leavings_of_a_crash_are_no_obstacle(self, folder: RunFolder) -> None:
        (folder.home / "config").write_text("half")
        folder.write_home({"config": b"whole"})
        assert tree(folder.home) == {"config": "whole"}

    def test_a_file_that_is_as_it_should_be_stays(self, folder: RunFolder) -> None:
        folder.write_home({"config": b"same"})
        before = (folder.home / "config").stat()
        folder.write_home({"config": b"same"})
        after = (folder.home / "config").stat()
        assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)

    def test_one_that_others_could_still_change_is_made_anew(self, tmp_path: Path, folder: RunFolder) -> None:
        """It reads the same, and is another name of a file that stays in somebody's hands; or anybody may write it."""
        for change in ("link", "mode"):
            folder.write_home({"config": b"same"})
            config = folder.home / "config"
            before = config.stat().st_ino
            if change == "link":
                os.link(config, tmp_path / "another name")
            else:
                config.chmod(0o666)
            folder.write_home({"config": b"same"})
            assert config.stat().st_nlink == 1
            assert stat.S_IMODE(config.stat().st_mode) == 0o600
            if change == "link":
                assert config.stat().st_ino != before

    def test_what_is_no_file_is_replaced(self, folder: RunFolder) -> None:
        os.mkfifo(folder.home / "config")
        folder.write_home({"config": b"x"})
        assert tree(folder.home) == {"config": "x"}

    @pytest.mark.parametrize("name", ["../x", "/etc/x", "//etc/x", "a/../../x", "a/.."])
    def test_no_name_leads_out(self, folder: RunFolder, name: str) -> None:
        before = tree(folder.root.parent)
        with pytest.raises(ValueError, match="is not inside the home"):
            folder.write_home({name: b"x"})
        assert tree(folder.root.parent) == before

    def test_link_in_the_way_is_not_followed(self, tmp_path: Path, folder: RunFolder) -> None:
        """An agent that was shut in its home could otherwise make us write elsewhere for it."""
        (tmp_path / "elsewhere").mkdir()
        (folder.home / ".demo").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(ValueError, match="is not inside the home"):
            folder.write_home({".demo/job.json": b"x", ".demo/sub/job.json": b"x"})
        assert list((tmp_path / "elsewhere").iterdir()) == []

    def test_link_in_place_of_the_file_is_replaced(self, tmp_path: Path, folder: RunFolder) -> None:
        (tmp_path / "precious").write_text("mine")
        (folder.home / "config").symlink_to(tmp_path / "precious")
        folder.write_home({"config": b"x"})
        assert (tmp_path / "precious").read_text() == "mine"
        assert tree(folder.home) == {"config": "x"}

    def test_link_inside_the_home_is_fine(self, folder: RunFolder) -> None:
        (folder.home / "real").mkdir()
        (folder.home / "alias").symlink_to("real")
        folder.write_home({"alias/config": b"x"})
        assert (folder.home / "real" / "config").read_text() == "x"


def test_an_agent_may_go_as_deep_as_it_likes(tmp_path: Path) -> None:
    """Whoever clears up after it goes as deep, and does not fall over itself on the way."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    at = os.open(scratch, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("deeper", dir_fd=at)
        below = os.open("deeper", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    discard(scratch)
    assert not scratch.exists()
