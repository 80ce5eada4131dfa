"""Whether there is a sandbox: what is wanted, what is there, and walls that do not hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.walls import GENEROUS, needs_walls
from turnkeeper.core.errors import SettingsInvalid
from turnkeeper.core.run import SandboxKind, SandboxMode
from turnkeeper.engines import probe
from turnkeeper.engines.mounts import Places
from turnkeeper.engines.sandbox import Sandbox


def settle(mode: SandboxMode, data: Path) -> Sandbox:
    return probe.settle(mode, Places(data_dir=data, home=Path.home()), GENEROUS)


@pytest.fixture
def builder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The bubblewrap that is found first, still to be written."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder / "bwrap"


def write(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@needs_walls
@pytest.mark.parametrize("mode", [SandboxMode.AUTO, SandboxMode.REQUIRED])
def test_walls_that_hold(tmp_path: Path, mode: SandboxMode) -> None:
    found = settle(mode, tmp_path)
    assert (found.kind, found.reason, found.is_missed) == (SandboxKind.BUBBLEWRAP, None, False)
    assert list(tmp_path.iterdir()) == []


@needs_walls
@pytest.mark.parametrize("target", ["{}/real", "real", "{}/far"], ids=["absolute", "relative", "elsewhere"])
def test_walls_hold_around_a_data_directory_behind_a_link(tmp_path: Path, target: str) -> None:
    """In a folder that every agent reads, with settings and a home that are links too."""
    shared, far = tmp_path / "shared", tmp_path / "far"
    for folder in (shared / "real", shared / "home", far):
        folder.mkdir(parents=True)
    (shared / "real.toml").touch()
    (shared / "far").symlink_to(far)
    (shared / "data").symlink_to(target.format(shared))
    (shared / "me").symlink_to(shared / "home")
    (shared / "settings.toml").symlink_to(shared / "real.toml")
    places = Places(
        data_dir=shared / "data", home=shared / "me", secret=(shared / "settings.toml",), read=(shared,)
    )
    assert probe.settle(SandboxMode.AUTO, places, GENEROUS).reason is None


@needs_walls
@pytest.mark.parametrize("path", ["/", "/proc"])
def test_the_processes_of_others_are_seen_by_nobody(tmp_path: Path, path: str) -> None:
    """Whatever is read: laid over the sandbox's own, they would be."""
    places = Places(data_dir=tmp_path, home=Path.home(), read=(Path(path),))
    assert "the processes of others" in str(probe.settle(SandboxMode.AUTO, places, GENEROUS).reason)


def test_switched_off_it_is_not_tried(tmp_path: Path, builder: Path) -> None:
    write(builder, f"touch {tmp_path}/tried")
    found = settle(SandboxMode.OFF, tmp_path)
    assert (found.kind, found.is_missed) == (SandboxKind.OFF, False)
    assert "sandbox.mode" in str(found.reason)
    assert not (tmp_path / "tried").exists()


def test_without_bubblewrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = settle(SandboxMode.AUTO, tmp_path)
    assert (found.kind, found.is_missed) == (SandboxKind.OFF, True)
    assert found.reason == "bubblewrap is not installed (apt install bubblewrap)"
    with pytest.raises(SettingsInvalid, match="apt install bubblewrap") as refused:
        settle(SandboxMode.REQUIRED, tmp_path)
    assert "\n" not in refused.value.message


COMMAND = 'while [ "$1" != -- ]; do shift; done; shift; while [ "$1" != -- ]; do shift; done; shift\n'
"""To the command that is to be inside, past the limits."""


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 'bwrap: No permissions to create new namespace' >&2; exit 1", "No permissions to create"),
        (f'{COMMAND}exec "$@"', "could read the data"),
        (f'{COMMAND}[ "$1" = true ] || touch "$5/stray"', "could write where nothing may"),
        (f'{COMMAND}[ "$1" = true ] || echo kernel', "could change the kernel"),
        ("exit 0", "could not write into its workspace"),
    ],
    ids=["refused", "no walls", "a hole", "the kernel", "nothing"],
)
def test_walls_that_do_not_hold_are_none(tmp_path: Path, builder: Path, script: str, words: str) -> None:
    """Whatever the builder says of itself: what an agent could do counts."""
    write(builder, script)
    data = tmp_path / "data"
    data.mkdir()
    found = settle(SandboxMode.AUTO, data)
    assert found.kind is SandboxKind.OFF
    assert words in str(found.reason)
    assert list(data.iterdir()) == []


def test_what_a_killed_start_left_is_tidied_up(tmp_path: Path) -> None:
    (tmp_path / "probe-abc" / "home").mkdir(parents=True)
    (tmp_path / "runs").mkdir()
    probe.tidy(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["runs"]
