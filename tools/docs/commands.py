"""The command line as the program itself knows it: every command with its usage, options, example and exit codes.

Help texts have one form, which `tests/cli/test_help.py` holds them to: a sentence, more if needed, then a paragraph
that begins with "For example:" and one that begins with "Ends with".
"""

from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

from tools.docs.tables import table
from turnkeeper.cli import app

EXAMPLE, CODES = "For example:", "Ends with"
VALUES: dict[object, str] = {str: "TEXT", int: "NUMBER", float: "NUMBER", Path: "PATH"}
"""What stands for the value of an option that has no word of its own for it."""


def overview() -> str:
    return table(
        ("command", "what it does"),
        ((f"[`{path}`](#{path.replace(' ', '-')})", _paragraphs(each)[0]) for path, each in _commands()),
    )


def commands() -> str:
    return "\n".join(_section(path, command) for path, command in _commands())


def _commands() -> list[tuple[str, TyperCommand]]:
    root = get_command(app)
    assert isinstance(root, TyperGroup)
    return list(_below(root, "turnkeeper"))


def _below(group: TyperGroup, path: str) -> Iterator[tuple[str, TyperCommand]]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from _below(command, f"{path} {name}")
        elif isinstance(command, TyperCommand) and not command.hidden:
            yield f"{path} {name}", command


def _section(path: str, command: TyperCommand) -> str:
    told = _paragraphs(command)
    words = [each for each in told if not each.startswith((EXAMPLE, CODES))]
    examples = [each.removeprefix(EXAMPLE) for each in told if each.startswith(EXAMPLE)]
    lines = [line.strip() for each in examples for line in each.splitlines() if line.strip()]
    codes = [each for each in told if each.startswith(CODES)]
    parts = (
        f"### {path}",
        *words,
        f"```text\n{path} {_usage(command)}\n```",
        table(("argument or option", "meaning"), map(_row, command.params)).strip(),
        "```sh\n" + "\n".join(lines) + "\n```",
        *codes,
    )
    return "\n\n".join(parts) + "\n"


def _paragraphs(command: TyperCommand) -> list[str]:
    return (command.help or "").split("\n\n")


def _usage(command: TyperCommand) -> str:
    arguments = [each for each in command.params if isinstance(each, TyperArgument)]
    return " ".join(("[OPTIONS]", *map(_argument, arguments)))


def _argument(argument: TyperArgument) -> str:
    name = _word(argument) + ("..." if argument.nargs != 1 else "")
    return name if argument.required else f"[{name}]"


def _row(each: Any) -> tuple[str, str]:
    words = [each.help or ""]
    if isinstance(each, TyperArgument):
        return f"`{_argument(each)}`", words[0]
    assert isinstance(each, TyperOption)
    names = [f"`{name}`" for name in (*each.opts, *each.secondary_opts)]
    if not each.is_flag:
        names[-1] = f"`{each.opts[-1]} {_word(each)}`"
    if each.secondary_opts and each.default is not None:
        words.append(f"Default: `{(each.opts if each.default else each.secondary_opts)[0]}`.")
    elif not each.is_flag and each.default not in (None, (), []) and each.show_default:
        words.append(f"Default: `{_shown(each.default)}`.")
    return ", ".join(names), " ".join(words)


def _word(each: TyperArgument | TyperOption) -> str:
    """What stands for the value."""
    if each.metavar:
        return each.metavar
    kind: Any = each.type_descriptor.annotation
    if get_origin(kind) is list:
        (kind,) = get_args(kind)
    if get_origin(kind) is Literal:
        return "|".join(map(str, get_args(kind)))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(str(member.value) for member in kind)
    return VALUES.get(kind, "TEXT") if isinstance(each, TyperOption) else (each.name or "").upper()


def _shown(default: object) -> str:
    return str(default.value if isinstance(default, Enum) else default)
