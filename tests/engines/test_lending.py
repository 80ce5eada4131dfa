"""The operator's login in a run's home: lent, renewed, returned, and gone, whatever happens in between."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from turnkeeper.engines.lending import Lent, LoginBusy, LoginUnreadable, lend, still_lent

NAME = ".codex/auth.json"
TOKEN = "a-token-that-is-long-enough"
LOGIN = json.dumps({"tokens": {"access": TOKEN, "kind": "short"}, "list": [TOKEN + "-2"]})
RENEWED = json.dumps({"tokens": {"access": "another-token-that-is-long"}})


class Desk:
    def __init__(self, root: Path) -> None:
        self.owner = root / "operator" / NAME
        self.home = root / "runs" / "1" / "home"
        self.notes = root / "lent"
        self.owner.parent.mkdir(parents=True)
        self.home.mkdir(parents=True)
        self.owner.write_text(LOGIN)

    def lend(self) -> Lent:
        return lend({NAME: self.owner}, self.home, self.notes / "1.json")

    @property
    def copy(self) -> Path:
        return self.home / NAME

    def assert_nothing_left(self) -> None:
        assert not os.path.lexists(self.copy)
        assert list(self.notes.iterdir()) == []
        assert [path.name for path in self.copy.parent.iterdir()] == []


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_it_is_there_for_its_owner_alone_and_then_gone(desk: Desk) -> None:
    lent = desk.lend()
    assert desk.copy.read_text() == LOGIN
    assert desk.copy.stat().st_mode & 0o777 == 0o600
    assert lent.secrets == {TOKEN, TOKEN + "-2"}
    before = desk.owner.stat()
    assert lent.take_back() == []
    desk.assert_nothing_left()
    assert desk.owner.stat() == before  # not renewed, so not touched


@pytest.mark.failure("Q05")
def test_a_renewed_login_goes_back(desk: Desk) -> None:
    lent = desk.lend()
    desk.copy.write_text(RENEWED)
    assert lent.take_back() == []
    assert desk.owner.read_text() == RENEWED
    assert desk.owner.stat().st_mode & 0o777 == 0o600
    desk.assert_nothing_left()


@pytest.mark.failure("Q05", "V01")
def test_after_a_crash_the_note_says_what_to_take_back(desk: Desk) -> None:
    os.close(desk.lend().lock)  # as the kernel does for a process that dies
    desk.copy.write_text(RENEWED)
    desk.copy.with_name(".auth.json.turnkeeper").write_text(LOGIN)  # it died in the middle of a copy
    (lent,) = still_lent(desk.notes)
    assert lent.take_back() == []
    assert desk.owner.read_text() == RENEWED
    desk.assert_nothing_left()
    assert still_lent(desk.notes) == []


@pytest.mark.failure("V01")
def test_a_crash_after_it_went_back_is_no_alarm(desk: Desk) -> None:
    os.close(desk.lend().lock)
    desk.copy.write_text(RENEWED)
    desk.owner.write_text(RENEWED)
    (lent,) = still_lent(desk.notes)
    assert lent.take_back() == []


@pytest.mark.failure("Q05")
def test_one_at_a_time_whoever_asks(desk: Desk) -> None:
    """Another service, or somebody who tries the engine by hand."""
    lent = desk.lend()
    with pytest.raises(LoginBusy):
        desk.lend()
    assert still_lent(desk.notes) == []  # it has an owner
    assert desk.copy.exists()
    lent.take_back()
    desk.lend().take_back()


@pytest.mark.parametrize("damage", ["folder", "file above", "loop"])
def test_whatever_an_agent_leaves_in_its_place_holds_nobody_up(desk: Desk, damage: str) -> None:
    lent = desk.lend()
    desk.copy.unlink()
    if damage == "folder":
        (desk.copy / "deep").mkdir(parents=True)
    else:
        desk.copy.parent.rmdir()
        if damage == "loop":
            desk.copy.parent.symlink_to(desk.copy.parent)
        else:
            desk.copy.parent.write_text("no folder any more")
    assert len(lent.take_back()) == 1
    assert desk.owner.read_text() == LOGIN
    assert list(desk.notes.iterdir()) == []
    assert not desk.copy.is_dir()


def test_all_files_are_lent_or_none(desk: Desk, tmp_path: Path) -> None:
    files = {NAME: desk.owner, ".codex/more.json": tmp_path / "nowhere.json"}
    with pytest.raises(LoginUnreadable, match=r"nowhere\.json cannot be read"):
        lend(files, desk.home, desk.notes / "1.json")
    assert not desk.copy.exists()
    assert not desk.notes.exists()


def test_the_operator_may_have_it_behind_a_link(desk: Desk, tmp_path: Path) -> None:
    real = tmp_path / "kept-elsewhere.json"
    desk.owner.rename(real)
    desk.owner.symlink_to(real)
    lent = desk.lend()
    assert desk.copy.read_text() == LOGIN
    desk.copy.write_text(RENEWED)
    assert lent.take_back() == []
    assert desk.owner.is_symlink()
    assert real.read_text() == RENEWED


def test_nothing_was_ever_lent(tmp_path: Path) -> None:
    assert still_lent(tmp_path / "lent") == []
    (tmp_path / "odd.json").write_text('{"files": 3}')
    assert still_lent(tmp_path) == []


@pytest.mark.failure("Q06")
def test_a_half_written_login_does_not_go_back(desk: Desk) -> None:
    lent = desk.lend()
    desk.copy.write_text(RENEWED[:20])
    (problem,) = lent.take_back()
    assert "half written" in problem
    assert desk.owner.read_text() == LOGIN
    desk.assert_nothing_left()


def test_who_logs_in_again_meanwhile_keeps_the_new_login(desk: Desk) -> None:
    lent = desk.lend()
    desk.copy.write_text(RENEWED)
    desk.owner.write_text('{"logged": "in again"}')
    (problem,) = lent.take_back()
    assert "changed by somebody else" in problem
    assert desk.owner.read_text() == '{"logged": "in again"}'
    desk.assert_nothing_left()


def test_who_logs_out_meanwhile_stays_logged_out(desk: Desk) -> None:
    lent = desk.lend()
    desk.copy.write_text(RENEWED)
    desk.owner.unlink()
    assert len(lent.take_back()) == 1
    assert not desk.owner.exists()


def test_an_engine_that_logs_out_does_not_log_the_operator_out(desk: Desk) -> None:
    lent = desk.lend()
    desk.copy.unlink()
    assert lent.take_back() == []
    assert desk.owner.read_text() == LOGIN


def test_a_link_of_the_agent_is_neither_followed_nor_left(desk: Desk, tmp_path: Path) -> None:
    """Else it could put whatever it likes in the place of the operator's login."""
    lent = desk.lend()
    stranger = tmp_path / "stranger.json"
    stranger.write_text(RENEWED)
    desk.copy.unlink()
    desk.copy.symlink_to(stranger)
    (problem,) = lent.take_back()
    assert "no longer a file of its own" in problem
    assert (desk.owner.read_text(), stranger.read_text()) == (LOGIN, RENEWED)
    assert not os.path.lexists(desk.copy)


def test_a_folder_that_is_a_link_is_not_entered(desk: Desk, tmp_path: Path) -> None:
    lent = desk.lend()
    elsewhere = tmp_path / "elsewhere"
    desk.copy.parent.rename(elsewhere)
    desk.copy.parent.symlink_to(elsewhere)
    (problem,) = lent.take_back()
    assert "is not where it was" in problem
    assert (elsewhere / "auth.json").exists()  # not ours to delete any more
    with pytest.raises(LoginUnreadable, match="has no place in the run's home"):
        desk.lend()


def test_a_fifo_does_not_hold_us_up(desk: Desk) -> None:
    lent = desk.lend()
    desk.copy.unlink()
    os.mkfifo(desk.copy)
    assert len(lent.take_back()) == 1
    desk.assert_nothing_left()
