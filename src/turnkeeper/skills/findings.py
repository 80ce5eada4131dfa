"""What can be said about a skill's folder: one list of codes, for the loader and for the linter."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    severity: Severity
    code: str
    where: str
    """The file that it is about, as it is called in the skill's folder."""
    message: str

    @property
    def sentence(self) -> str:
        return f"{self.where}: {self.message}"


BREAKS: dict[str, str] = {
    "FOLDER_NAME_INVALID": "The folder's name is not Unicode, so no job could name the skill.",
    "FILE_MISSING": "A file that must be there is not, or `runner.json` names one that is not.",
    "FILE_UNREADABLE": "A file cannot be read, or is not an ordinary file.",
    "FILE_TOO_LARGE": "A file is larger than 1 MiB.",
    "FILE_OUTSIDE": "A path or a link leads out of the skill's folder.",
    "FRONT_MATTER_TOO_LONG": "The front matter is longer than 65536 characters.",
    "JSON_INVALID": "A file is not JSON, or not an object.",
    "JSON_UNUSABLE": "JSON that cannot be kept: it nests too deeply, or holds text that is not Unicode, or NUL.",
    "FIELD_INVALID": "A field of `runner.json` is of the wrong kind.",
    "ID_INVALID": "The `id` is not 1 to 64 letters, digits, `.`, `_` or `-`, beginning with a letter or digit.",
    "MODE_UNKNOWN": "`execution_modes` has a mode other than `auto` and `interactive`.",
    "MAX_ATTEMPT_INVALID": "`max_attempt` is not a whole number from 1 to 1000000.",
    "TIMEOUT_INVALID": "`timeouts` has an unknown name, or a value that is not a number of seconds.",
    "ARTIFACT_INVALID": "An artifact has no pattern, or one that leads out of the workspace.",
    "SECRET_INVALID": "`secrets` names something that no secret can be called; the reason is named.",
    "SCHEMA_INVALID": "A schema is not JSON Schema of draft 2020-12, refers outside itself, or could take for ever.",
    "SCHEMA_NOT_OBJECT": "An output schema is not of type object.",
    "SCHEMA_DECLARES_MARKER": "An output schema declares `__SKILL_DONE__`, which belongs to the protocol.",
    "FILE_INPUT_INVALID": "An input that comes as a file is neither a string nor a list of strings.",
}
"""With one of these the skill is broken: it cannot be run."""

STRICT: dict[str, str] = {
    "DEFAULT_INVALID": "The default of a property does not fit the property itself; a job without it is refused.",
    "ENGINE_NONE_LEFT": "`unsupported_engines` leaves none of the `engines`: every job is refused.",
}
"""Errors that only the linter tells: the skill loads, but some or all jobs will fail."""

WARNS: dict[str, str] = {
    "TEXT_NOT_UTF8": "A file is not UTF-8; what could not be read was replaced.",
    "FRONT_MATTER_MISSING": "`SKILL.md` does not begin with front matter, or it does not end.",
    "FRONT_MATTER_INVALID": "The front matter is not a YAML mapping; its lines were read one by one.",
    "NAME_MISSING": "The front matter has no `name`.",
    "NAME_INVALID": "The `name` is not 1 to 64 small letters and digits, in words joined by single hyphens.",
    "NAME_NOT_FOLDER": "The `name` is not the folder's name; some agents do not find such a skill.",
    "DESCRIPTION_MISSING": "The front matter has no `description`; agents choose skills by it.",
    "DESCRIPTION_TOO_LONG": "The `description` is longer than 1024 characters.",
    "LINK_BROKEN": "`SKILL.md` links to a file that is not in the folder.",
    "KEY_TWICE": "A JSON object has a key twice; only the last value counts.",
    "KEY_UNKNOWN": "`runner.json` has a field that means nothing here.",
    "VERSION_NOT_NUMBERS": "The version is not numbers with dots, so it cannot be compared with another.",
    "ENGINE_UNKNOWN": "An engine is named that is not known here.",
    "ENGINE_CONTRADICTION": "An engine is in `engines` and in `unsupported_engines`; it is not supported.",
    "MODES_EMPTY": "`execution_modes` is empty, which means both modes.",
    "PROMPT_UNUSED": "There is a prompt for an engine that the skill does not run on.",
    "PLACEHOLDER_UNKNOWN": "A prompt has a placeholder that is not filled in.",
    "ARTIFACT_MATCHES_ALL": "An artifact pattern matches every file.",
    "INPUT_SOURCE_UNKNOWN": "`x-input-source` is neither `file` nor `inline`; it counts as `inline`.",
    "OUTPUT_SCHEMA_MISSING": "There is a `runner.json` but no output schema, so any result will do.",
    "OUTPUT_SCHEMA_TOO_LOOSE": "The output schema accepts `{}`; require the fields you need.",
    "ID_TWICE": "Another skill of the same id comes first; this one is never run.",
}

LINT: dict[str, str] = {**BREAKS, **STRICT, **WARNS}

FIX: dict[str, str] = {
    "FOLDER_NAME_INVALID": "Rename the folder.",
    "FILE_MISSING": "Add the file, or correct its path in `runner.json`.",
    "FILE_UNREADABLE": "Give the service the right to read it; put an ordinary file there.",
    "FILE_TOO_LARGE": "Move what is long into files that `SKILL.md` refers to.",
    "FILE_OUTSIDE": "Copy the file into the skill's folder.",
    "FRONT_MATTER_TOO_LONG": "Move what is long below the front matter.",
    "JSON_INVALID": "Correct it at the place that is named.",
    "JSON_UNUSABLE": "Make it flatter, or write the text as Unicode.",
    "FIELD_INVALID": "Give the field the kind that is named.",
    "ID_INVALID": "Choose another `id`, or leave it out: then it is the folder's name.",
    "MODE_UNKNOWN": "Use `auto`, `interactive` or both.",
    "MAX_ATTEMPT_INVALID": "Give a number from 1, or leave it out for no limit.",
    "TIMEOUT_INVALID": "Use the names that are listed, with seconds.",
    "ARTIFACT_INVALID": "Give a pattern such as `report.md` or `charts/*.png`.",
    "SECRET_INVALID": "Use a name such as `GITHUB_TOKEN`, each once.",
    "SCHEMA_INVALID": "Correct it at the place that is named; copy what it refers to into it.",
    "SCHEMA_NOT_OBJECT": 'Say `"type": "object"`, and put a list or a text into a property.',
    "SCHEMA_DECLARES_MARKER": "Take the property out; the run tells the agent about the marker.",
    "FILE_INPUT_INVALID": 'Make it `"type": "string"`, or an array of strings.',
    "DEFAULT_INVALID": "Change the default, or what the property allows.",
    "ENGINE_NONE_LEFT": "Leave at least one engine.",
    "TEXT_NOT_UTF8": "Save the file as UTF-8.",
    "FRONT_MATTER_MISSING": "Begin `SKILL.md` with `---`, `name`, `description` and `---`, a line each.",
    "FRONT_MATTER_INVALID": "Put quotes around values with a colon; `name` and `description` are enough.",
    "NAME_MISSING": "Add `name`, the same as the folder's.",
    "NAME_INVALID": "Use a name such as `meeting-notes`.",
    "NAME_NOT_FOLDER": "Rename the folder, or change `name`.",
    "DESCRIPTION_MISSING": "Add what the skill does and when to use it.",
    "DESCRIPTION_TOO_LONG": "Keep what it does and when to use it; the rest belongs below.",
    "LINK_BROKEN": "Add the file, or correct the link.",
    "KEY_TWICE": "Take one of them out.",
    "KEY_UNKNOWN": "Correct the spelling, or take the field out.",
    "VERSION_NOT_NUMBERS": "Use a version such as `1.2.0`.",
    "ENGINE_UNKNOWN": "Correct the name, or leave it if the engine is installed elsewhere.",
    "ENGINE_CONTRADICTION": "Take the engine out of one of the lists.",
    "MODES_EMPTY": "Name the modes, or leave the field out.",
    "PROMPT_UNUSED": "Take the prompt out, or allow the engine.",
    "PLACEHOLDER_UNKNOWN": "Use `{{name}}`, `{{skill_file}}`, `{{input}}` or `{{parameter}}`.",
    "ARTIFACT_MATCHES_ALL": "Name the files that matter, or leave `artifacts` out.",
    "INPUT_SOURCE_UNKNOWN": "Write `file`, or leave it out.",
    "OUTPUT_SCHEMA_MISSING": "Add `schemas.output`, so that a wrong result is noticed.",
    "OUTPUT_SCHEMA_TOO_LOOSE": "List the fields you need under `required`.",
    "ID_TWICE": "Give one of them another `id`.",
}
"""What to do about each of them."""


def finding(code: str, where: str, message: str) -> Finding:
    severity = Severity.WARNING if code in WARNS else Severity.ERROR
    assert code in LINT, code
    return Finding(severity, code, as_text(where), as_text(message))


def as_text(value: object) -> str:
    """Text that can be stored and told, whatever it was made from."""
    try:
        text = str(value)
    except ValueError:
        return ""  # a number with too many digits to be written
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
