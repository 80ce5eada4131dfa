"""Which uploaded file is which input: by name, and never by guessing."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from turnkeeper.core.contract import Contract, FileInput
from turnkeeper.core.errors import ArchiveRefused, InputInvalid, InvalidRequest, TurnkeeperError
from turnkeeper.skills import uploads
from turnkeeper.skills.uploads import Part, assign, expected, misnamed, receive

PAPER = FileInput("paper", required=True, many=False)
NOTES = FileInput("notes", required=False, many=False)
PICTURES = FileInput("pictures", required=False, many=True)
INPUTS = (PAPER, NOTES, PICTURES)

FILE = {"type": "string", "x-input-source": "file"}
CONTRACT = Contract(
    name="s",
    is_plain=False,
    input_schema={
        "type": "object",
        "required": ["paper"],
        "properties": {
            "paper": {**FILE, "pattern": "\\.txt$"},
            "notes": FILE,
            "pictures": {"type": "array", "items": {"type": "string"}, "x-input-source": "file"},
        },
    },
)


@pytest.mark.parametrize(
    ("given", "paths", "found"),
    [
        ({}, ["paper"], {"paper": "paper"}),
        ({}, ["paper.pdf"], {"paper": "paper.pdf"}),
        ({}, ["paper.tar.gz", "papers.txt", "other/paper.txt"], {"paper": "paper.tar.gz"}),
        ({"paper": "in/Report 1.pdf"}, ["in/Report 1.pdf", "paper"], {"paper": "in/Report 1.pdf"}),
        ({}, ["paper", "notes.md", "unclaimed"], {"paper": "paper", "notes": "notes.md"}),
        (
            {},
            ["paper", "pictures/b", "pictures/a/c"],
            {"paper": "paper", "pictures": ["pictures/b", "pictures/a/c"]},
        ),
        ({}, ["paper", "pictures.png"], {"paper": "paper", "pictures": ["pictures.png"]}),
        ({"pictures": ["x", "y"]}, ["paper", "x", "y", "z"], {"paper": "paper", "pictures": ["x", "y"]}),
    ],
)
def test_a_file_is_known_by_its_name(given: dict[str, Any], paths: list[str], found: dict[str, Any]) -> None:
    assert assign(INPUTS, given, paths) == (found, [])


@pytest.mark.parametrize(
    ("given", "paths", "pointers"),
    [
        ({}, [], ["/input/paper"]),
        ({}, ["Paper", "folder/paper"], ["/input/paper"]),
        ({}, ["paper.txt", "paper.pdf"], ["/input/paper"]),
        ({"paper": "a.txt"}, ["paper.txt"], ["/input/paper"]),
        ({"notes": "n.txt"}, ["paper"], ["/input/notes"]),
        (
            {"notes": "n.txt", "pictures": ["a", "b"]},
            ["a"],
            ["/input/paper", "/input/notes", "/input/pictures"],
        ),
    ],
)
def test_what_is_missing_or_unclear_is_listed(
    given: dict[str, Any], paths: list[str], pointers: list[str]
) -> None:
    _, errors = assign(INPUTS, given, paths)
    assert [error.partition(":")[0] for error in errors] == pointers


def test_required_files_and_named_ones_are_waited_for() -> None:
    assert expected(INPUTS, {}) == ["paper"]
    assert expected(INPUTS, {"pictures": ["a"]}) == ["paper", "pictures"]
    assert expected((NOTES,), {}) == []


@pytest.mark.parametrize(
    "given",
    [{"paper": 1}, {"paper": ""}, {"paper": ["a"]}, {"pictures": "a"}, {"pictures": []}, {"paper": None}],
)
def test_a_job_can_only_name_a_file(given: dict[str, Any]) -> None:
    assert len(misnamed(INPUTS, given)) == 1
    assert misnamed(INPUTS, {"paper": "a", "pictures": ["b"]}) == []


def part(name: str, filename: str = "", data: bytes = b"x") -> Part:
    return Part(name, filename, io.BytesIO(data))


class TestReceive:
    def test_parts_are_files_of_their_own_names(self, tmp_path: Path) -> None:
        into = tmp_path / "up"
        parts = [
            part("paper", "C:\\docs\\Mein Text.txt", b"words"),
            part("pictures", "/tmp/1.png", b"1"),
            part("pictures", "2.png", b"2"),
        ]
        assert receive(CONTRACT, {}, parts, into) == {
            "paper": "uploads/Mein Text.txt",
            "pictures": ["uploads/1.png", "uploads/2.png"],
        }
        assert (into / "Mein Text.txt").read_bytes() == b"words"
        assert sorted(path.name for path in into.iterdir()) == ["1.png", "2.png", "Mein Text.txt"]

    @pytest.mark.parametrize(
        ("parts", "refusal"),
        [
            ([], InvalidRequest),
            ([part("other", "a.txt")], InvalidRequest),
            ([part("paper", "a.txt"), part("file", "b.zip")], InvalidRequest),
            ([part("paper", "a.txt"), part("paper", "b.txt")], InvalidRequest),
            ([part("paper", "a.txt"), part("notes", "a.txt")], InvalidRequest),
            ([part("paper", "..")], ArchiveRefused),
            ([part("paper", "a/..")], ArchiveRefused),
            ([part("paper", "x\n.txt")], ArchiveRefused),
            ([part("paper", "x\0.txt")], ArchiveRefused),
            ([part("paper", "ü" * 200 + ".txt")], ArchiveRefused),
            ([part("file", "all.zip", b"not a zip")], ArchiveRefused),
            ([part("notes", "notes.txt")], InputInvalid),
            ([part("paper", "paper.pdf")], InputInvalid),
        ],
        ids=lambda value: (
            value.__name__ if isinstance(value, type) else "-".join(p.filename[:9] for p in value)
        ),
    )
    def test_refusals(self, tmp_path: Path, parts: list[Part], refusal: type[TurnkeeperError]) -> None:
        with pytest.raises(refusal):
            receive(CONTRACT, {}, parts, tmp_path / "up")

    def test_a_part_of_an_inputs_name_is_that_input_even_if_it_is_called_file(self, tmp_path: Path) -> None:
        contract = Contract(
            name="s",
            is_plain=False,
            input_schema={"type": "object", "required": ["file"], "properties": {"file": FILE}},
        )
        assert receive(contract, {}, [part(uploads.ARCHIVE, "x.zip")], tmp_path / "up") == {
            "file": "uploads/x.zip"
        }
