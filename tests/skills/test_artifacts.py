"""Files in a workspace: found by pattern, and opened without a step aside."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from turnkeeper.core.contract import ArtifactRule
from turnkeeper.core.errors import FileNotAvailable
from turnkeeper.skills import artifacts
from turnkeeper.skills.artifacts import (
    LINK,
    MOST,
    Artifact,
    find,
    missing,
    named,
    open_inside,
    open_shown,
)


def rule(pattern: str, *, required: bool = False, mime: str | None = None) -> ArtifactRule:
    return ArtifactRule(role=f"the {pattern}", pattern=pattern, mime=mime, required=required)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    for name in (
        "report.md",
        "Report.MD",
        "out/report.md",
        "out/a.svg",
        "out/deep/b.svg",
        "out/deep/er/c.svg",
        ".hidden",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("report.md", ["report.md"]),
        ("*.md", ["report.md"]),
        ("**/*.md", ["report.md", "out/report.md"]),
        ("out/*.svg", ["out/a.svg"]),
        ("out/**/*.svg", ["out/a.svg", "out/deep/b.svg", "out/deep/er/c.svg"]),
        ("out/**", ["out/a.svg", "out/report.md", "out/deep/b.svg", "out/deep/er/c.svg"]),
        ("out/*/*.svg", ["out/deep/b.svg"]),
        ("**/deep/**/c.*", ["out/deep/er/c.svg"]),
        ("out/?.svg", ["out/a.svg"]),
        ("[Rr]eport.*", ["Report.MD", "report.md"]),
        (".*", [".hidden"]),
        ("./report.md", ["report.md"]),
        ("out", []),
        ("out/", []),
        ("svg", []),
        ("*", [".hidden", "Report.MD", "report.md"]),
    ],
)
def test_patterns(workspace: Path, pattern: str, found: list[str]) -> None:
    assert [each.path for each in find(workspace, [rule(pattern)])] == found


def test_first_rule_that_fits_names_the_role(workspace: Path) -> None:
    rules = [rule("out/*.svg", mime="image/x"), rule("**/*.svg"), rule("report.md")]
    assert [(each.path, each.role, each.mime) for each in find(workspace, rules)] == [
        ("report.md", "the report.md", "text/markdown"),
        ("out/a.svg", "the out/*.svg", "image/x"),
        ("out/deep/b.svg", "the **/*.svg", "image/svg+xml"),
        ("out/deep/er/c.svg", "the **/*.svg", "image/svg+xml"),
    ]


def test_only_required_patterns_can_be_missing(workspace: Path) -> None:
    rules = [rule("report.md", required=True), rule("*.pdf", required=True), rule("*.txt")]
    assert missing(rules, find(workspace, rules)) == ["*.pdf"]


def test_no_workspace_holds_no_files(tmp_path: Path) -> None:
    assert find(tmp_path / "nowhere", []) == []


def test_heap_of_other_files_does_not_hide_the_one_that_counts(tmp_path: Path) -> None:
    for folder in range(3):
        (tmp_path / "node_modules" / str(folder)).mkdir(parents=True)
        for number in range(MOST // 2):
            (tmp_path / "node_modules" / str(folder) / f"{number}.js").touch()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report.md").write_text("found")
    assert [each.path for each in find(tmp_path, [rule("out/report.md", required=True)])] == ["out/report.md"]
    assert len(find(tmp_path, [])) == MOST, "and an answer has an end"


def files_in(workspace: Path) -> list[Artifact]:
    return [each for each in find(workspace, []) if not each.is_link]


def test_only_ordinary_files_with_names_that_are_text(workspace: Path) -> None:
    (workspace / "link").symlink_to("report.md")
    (workspace / "etc").symlink_to("/etc")
    os.mkfifo(workspace / "pipe")
    Path(os.fsdecode(os.fsencode(workspace) + b"/\xff")).touch()
    Path(os.fsdecode(os.fsencode(workspace) + b"/\xfe")).mkdir()
    Path(os.fsdecode(os.fsencode(workspace) + b"/\xfe/inside")).touch()
    assert {each.path for each in files_in(workspace)} == {
        ".hidden",
        "Report.MD",
        "report.md",
        "out/a.svg",
        "out/deep/b.svg",
        "out/deep/er/c.svg",
        "out/report.md",
    }


def test_loop_of_folders_comes_to_an_end(workspace: Path) -> None:
    (workspace / "out" / "again").symlink_to("..")
    assert len(files_in(workspace)) == 7


@pytest.mark.failure("A07")
def test_links_are_listed_with_what_they_say_and_are_nothing_more(workspace: Path) -> None:
    (workspace / "link").symlink_to("report.md")
    (workspace / "out" / "etc").symlink_to("/etc")
    (workspace / "out" / "required.md").symlink_to("../report.md")
    links = [each for each in find(workspace, []) if each.is_link]
    assert [(each.path, each.target, each.size, each.mime) for each in links] == [
        ("link", "report.md", 0, LINK),
        ("out/etc", "/etc", 0, LINK),
        ("out/required.md", "../report.md", 0, LINK),
    ]
    wanted = [rule("out/required.md", required=True)]
    assert missing(wanted, find(workspace, wanted)) == ["out/required.md"]
    with pytest.raises(FileNotAvailable, match="is a link, which is not followed"):
        open_inside(workspace, "out/required.md")


def test_names_that_look_alike_when_hidden_are_told_apart(workspace: Path) -> None:
    (workspace / "key-one.txt").write_text("1")
    (workspace / "key-two.txt").write_text("2")

    def hide(text: str) -> str:
        return text.replace("one", "***").replace("two", "***")

    shown = [name for name, _ in named(find(workspace, []), hide) if "*" in name]
    assert shown == ["key-***.txt", "key-***.txt~2"]
    for name, words in zip(shown, ("1", "2"), strict=True):
        with os.fdopen(open_shown(workspace, name, (), hide)) as file:
            assert file.read() == words
    with pytest.raises(FileNotAvailable):
        open_shown(workspace, "key-****.txt", (), hide)


def test_open_reads_what_is_there(workspace: Path) -> None:
    with os.fdopen(open_inside(workspace, "out/deep/b.svg")) as file:
        assert file.read() == "out/deep/b.svg"


@pytest.mark.failure("A07")
@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "..",
        "/",
        "//",
        "//etc/passwd",
        "/etc/passwd",
        "///etc/passwd",
        "../secret",
        "out/../../secret",
        "a\0b",
        "out",
    ],
)
def test_open_stays_inside(workspace: Path, path: str) -> None:
    (workspace.parent / "secret").write_text("secret")
    with pytest.raises(FileNotAvailable):
        open_inside(workspace, path)


@pytest.mark.failure("A07")
def test_open_leaves_nothing_open_when_it_refuses(workspace: Path) -> None:
    os.mkfifo(workspace / "pipe")
    (workspace / "link").symlink_to("report.md")
    before = sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for path in ("pipe", "link", "nothing", "out/deep", "..", "report.md/x", "out/nothing/x"):
        with pytest.raises(FileNotAvailable):
            open_inside(workspace, path)
    assert sorted(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_limits_are_sensible() -> None:
    assert artifacts.LOOKED_AT > MOST


def test_folders_as_deep_as_a_disk_allows(tmp_path: Path) -> None:
    """Deeper than a path may be long, or than Python calls itself."""
    root = tmp_path / "deep"
    root.mkdir()
    (root / "found.md").write_text("x")
    here = os.open(root, os.O_RDONLY)
    for _ in range(2500):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    assert [file.path for file in find(root, [rule("**/*.md")])] == ["found.md"]
    subprocess.run(["rm", "-rf", root], check=True)  # pytest's own cleaning would call itself too often


def test_pattern_that_could_try_for_ever_does_not(tmp_path: Path) -> None:
    folder = tmp_path.joinpath(*"abcdefghijklmnopqrst")
    folder.mkdir(parents=True)
    (folder / "x.md").write_text("x")
    assert find(tmp_path, [rule("**/" * 40 + "y.md")]) == []
    assert len(find(tmp_path, [rule("**/" * 40 + "x.md")])) == 1
