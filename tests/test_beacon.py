"""The file by which a running service is found."""

from __future__ import annotations

import json
import logging
import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from turnkeeper import beacon
from turnkeeper.beacon import Beacon

HERE = Beacon(
    url="http://127.0.0.1:9813",
    pid=4711,
    version="0.1.0",
    started_at=datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
)


def test_it_is_there_as_long_as_the_service_answers(tmp_path: Path) -> None:
    (tmp_path / "service.json.new").write_text("of one that was killed while it wrote")
    with beacon.lit(tmp_path, HERE):
        (path,) = tmp_path.iterdir()
        assert path.stat().st_mode & 0o777 == 0o600
        assert json.loads(path.read_text()) == {
            "url": "http://127.0.0.1:9813",
            "pid": 4711,
            "version": "0.1.0",
            "started_at": "2026-01-02T03:04:05.678901Z",
            "cert": None,
        }
        assert beacon.seen(tmp_path) == HERE
    assert beacon.seen(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", ["", "{", "[]", "{}", '{"url": 5}', "\ufffd"])
def test_what_cannot_be_read_is_none(tmp_path: Path, words: str) -> None:
    (tmp_path / beacon.NAME).write_text(words)
    assert beacon.seen(tmp_path) is None


def test_nothing_but_a_plain_file_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / beacon.NAME)  # whoever opened it to read would wait for a writer
    assert beacon.seen(tmp_path) is None
    (tmp_path / beacon.NAME).unlink()
    (tmp_path / "elsewhere").write_bytes(msgspec.json.encode(HERE))
    (tmp_path / beacon.NAME).symlink_to(tmp_path / "elsewhere")
    assert beacon.seen(tmp_path) is None


def test_a_service_that_cannot_light_it_serves(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), beacon.lit(tmp_path / "nowhere", HERE):
        pass
    assert "no command will find this service" in caplog.text
