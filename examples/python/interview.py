"""Runs a skill in this terminal: the agent asks, you answer, and the result is printed.

python examples/python/interview.py [SKILL [ENGINE]]
"""

from __future__ import annotations

import json
import sys

from turnkeeper.client import ApiError, Client, ClientError, Question, Run


def answer(question: Question) -> str:
    """A number chooses an option; any other text is an answer as it is."""
    print(f"\n{question.prompt}")
    for number, option in enumerate(question.options, start=1):
        print(f"  {number}  {option.label}")
    said = input("> ")
    chosen = int(said) if said.isdecimal() else 0
    return str(question.options[chosen - 1].value) if 1 <= chosen <= len(question.options) else said


def talk(run: Run) -> None:
    for event in run.events():
        question = run.pending() if event.type == "user.input.required" else None
        if question is None:
            continue  # it says something else, or somebody has answered meanwhile
        try:
            run.reply(answer(question), question.interaction_id)
        except ApiError as error:
            print(error)  # such as: somebody else was faster


def main(skill: str = "interview", engine: str = "demo") -> None:
    with Client() as client:
        run = client.run(skill, engine=engine, interactive=True)
        try:
            talk(run)
        except (EOFError, KeyboardInterrupt):
            sys.exit(f"\nThe run waits for you: {run.id}")
        print(json.dumps(run.result(), indent=2, ensure_ascii=False))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except ClientError as error:
        sys.exit(str(error))
