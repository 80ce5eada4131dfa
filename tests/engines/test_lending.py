"""The operator's login in a run's home: lent, renewed, returned, and gone, whatever happens in between."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from tests.descriptors import few_descriptors
from turnkeeper.core.errors import StorageUnavailable
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


# A machine that is short of something. What the engine renewed is the only login that still works.


def refuse(number: int, patch: pytest.MonkeyPatch) -> None:
    """The disk does, whatever is to be kept there for good."""

    def fail(_: int) -> None:
        raise OSError(number, os.strerror(number))

    patch.setattr(os, "fsync", fail)


@pytest.mark.failure("Q05", "V09")
def test_without_file_descriptors_a_renewed_login_stays_until_the_next_start(desk: Desk) -> None:
    lent = desk.lend()
    desk.copy.write_text(RENEWED)
    with few_descriptors():
        (problem,) = lent.take_back()
    assert "Too many open files" in problem
    assert (desk.owner.read_text(), desk.copy.read_text()) == (LOGIN, RENEWED)
    (left,) = still_lent(desk.notes)
    assert left.take_back() == []
    assert desk.owner.read_text() == RENEWED
    desk.assert_nothing_left()


@pytest.mark.failure("Q05", "V03")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO], ids=os.strerror)
def test_on_a_bad_disk_a_renewed_login_stays_until_the_next_start(
    desk: Desk, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lent = desk.lend()
    desk.copy.write_text(RENEWED)
    with monkeypatch.context() as patch:
        refuse(number, patch)
        (problem,) = lent.take_back()
    assert os.strerror(number) in problem
    assert (desk.owner.read_text(), desk.copy.read_text()) == (LOGIN, RENEWED)
    (left,) = still_lent(desk.notes)
    assert left.take_back() == []
    assert desk.owner.read_text() == RENEWED
    desk.assert_nothing_left()


def test_an_owner_that_may_not_be_written_is_told_and_nothing_stays(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    lent = desk.lend()
    desk.copy.write_text(RENEWED)
    refuse(errno.EROFS, monkeypatch)
    (problem,) = lent.take_back()
    assert "log in again" in problem
    desk.assert_nothing_left()


@pytest.mark.failure("Q05", "V03")
def test_what_stayed_goes_back_before_anybody_is_lent_it_again(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator's file is spent: whoever is lent that one is locked out, and the operator with them."""
    lent = desk.lend()
    desk.copy.write_text(RENEWED)
    other = tmp_path / "runs" / "2" / "home"
    other.mkdir(parents=True)
    with monkeypatch.context() as patch:
        refuse(errno.ENOSPC, patch)
        assert len(lent.take_back()) == 1
        for home, name in ((desk.home, "1.json"), (other, "2.json")):
            with pytest.raises(OSError, match="No space left"):
                lend({NAME: desk.owner}, home, desk.notes / name)
        assert desk.copy.read_text() == RENEWED
    lent = lend({NAME: desk.owner}, other, desk.notes / "2.json")
    assert (other / NAME).read_text() == desk.owner.read_text() == RENEWED
    assert not desk.copy.exists()
    lent.take_back()
    desk.assert_nothing_left()


@pytest.mark.failure("Q05", "V01")
def test_what_a_crash_left_is_not_taken_from_a_process_that_may_be_alive(desk: Desk, tmp_path: Path) -> None:
    os.close(desk.lend().lock)
    other = tmp_path / "visit"
    other.mkdir()
    lend({NAME: desk.owner}, other, desk.notes / "2.json").take_back()
    assert desk.copy.exists()
    (left,) = still_lent(desk.notes)
    left.take_back()
    desk.assert_nothing_left()


@pytest.mark.failure("V09")
def test_without_file_descriptors_a_login_is_not_called_unreadable_for_good(desk: Desk) -> None:
    with few_descriptors(1), pytest.raises(LoginUnreadable, match="Too many open files") as refused:
        desk.lend()
    assert isinstance(refused.value.__cause__, OSError)
    assert refused.value.__cause__.errno == errno.EMFILE
    lent = desk.lend()  # the lock was let go of
    assert lent.take_back() == []


@pytest.mark.failure("V09")
def test_without_file_descriptors_nobody_says_that_nothing_is_lent(desk: Desk) -> None:
    os.close(desk.lend().lock)
    with few_descriptors(), pytest.raises(StorageUnavailable, match="Too many open files"):
        still_lent(desk.notes)
    (left,) = still_lent(desk.notes)
    assert left.take_back() == []
