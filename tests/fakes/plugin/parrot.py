"""The program of the Parrot engine: asks first, and answers with what it hears when it is asked again."""

import json
import sys
from pathlib import Path

PERCH = "perch-1"


def say(**said: object) -> None:
    sys.stdout.write(json.dumps(said) + "\n")


def main(arguments: list[str]) -> None:
    heard = sys.stdin.read()
    note = Path.home() / PERCH
    say(perch=PERCH)
    if arguments == ["--json"]:
        note.write_text("Polly wants a cracker?")
        say(squawk=note.read_text())
    elif arguments == ["--json", "--again", PERCH] and note.exists():
        say(squawk=json.dumps({"__SKILL_DONE__": True, "answer": heard}))
    else:
        say(ouch=f"unexpected arguments: {arguments}")
    say(hush=True)


main(sys.argv[1:])
