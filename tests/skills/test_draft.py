"""A new skill from the template: whatever it is called, the linter has nothing to say, and it is there whole or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnkeeper import engines
from turnkeeper.core.run import Mode
from turnkeeper.skills.draft import Draft, DraftRefused
from turnkeeper.skills.lint import lint
from turnkeeper.skills.package import load

FILES = [
    "SKILL.md",
    "assets/demo.json",
    "assets/input.schema.json",
    "assets/output.schema.json",
    "assets/parameter.schema.json",
    "assets/runner.json",
]
DESCRIPTIONS = [
    "Plans a party.",
    'Says: "yes" and \\ no.',
    "# is a sign, not a comment",
    "{braces} [brackets] & *stars* | pipes > all % of @ them `here`",
    "'quoted'",
    "- a list",
    "true",
    "12",
    "SKILL_NAME stays SKILL_NAME",
    "Grüße, 你好",
]


@pytest.mark.parametrize("asks", [True, False], ids=["interactive", "auto"])
def test_it_is_complete_and_good(tmp_path: Path, asks: bool) -> None:
    place = Draft("party-plan", asks=asks).write(tmp_path)
    assert sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()) == FILES
    assert lint(place, engines.names()) == []
    skill = load(place)
    assert (skill.id, skill.name, skill.version) == ("party-plan", "party-plan", "0.1.0")
    assert skill.execution_modes == ((Mode.INTERACTIVE,) if asks else (Mode.AUTO, Mode.INTERACTIVE))
    assert None not in (skill.input_schema, skill.parameter_schema, skill.output_schema)
    assert not [path for path in place.rglob("*") if path.is_file() and "SKILL_" in path.read_text()]


@pytest.mark.parametrize("asks", [True, False], ids=["interactive", "auto"])
@pytest.mark.parametrize("words", DESCRIPTIONS)
def test_description_is_kept_word_by_word(tmp_path: Path, words: str, asks: bool) -> None:
    place = Draft("it", words, asks=asks).write(tmp_path)
    assert lint(place, engines.names()) == []
    assert load(place).description == words


@pytest.mark.parametrize(
    "name",
    ["", "Party", "party plan", "party_plan", "-party", "a--b", "a/b", "..", ".", "ü", "x" * 65, "a\n"],
)
def test_name_that_is_none(name: str) -> None:
    with pytest.raises(DraftRefused, match="cannot be the name of a skill"):
        Draft(name).require_good()


@pytest.mark.parametrize("words", ["", "two\nlines", "\x1b[1m", "\udcff", "x" * 1025])
def test_description_that_is_none(words: str) -> None:
    with pytest.raises(DraftRefused, match="description"):
        Draft("party", words).require_good()


@pytest.mark.parametrize("what", ["folder", "file", "link to nowhere"])
def test_nothing_is_overwritten(tmp_path: Path, what: str) -> None:
    place = tmp_path / "party"
    match what:
        case "folder":
            place.mkdir()
        case "file":
            place.write_text("precious")
        case _:
            place.symlink_to("/nowhere")
    before = place.lstat()
    with pytest.raises(DraftRefused, match="is there already; choose another name"):
        Draft("party").write(tmp_path)
    assert place.lstat() == before
    assert list(tmp_path.iterdir()) == [place], "nothing else was left either"


def test_folder_that_cannot_be_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(DraftRefused, match="cannot be made: "):
            Draft("party").write(folder)
    assert (tmp_path / "file").read_text() == "precious"
