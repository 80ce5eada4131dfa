"""`turnkeeper reply` and `turnkeeper cancel`: a word to runs that go on elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from turnkeeper.cli.completion import run_ids
from turnkeeper.cli.conversation import Asked
from turnkeeper.cli.desk import Desk
from turnkeeper.cli.follow import Manner, has_person
from turnkeeper.cli.given import read_stdin
from turnkeeper.cli.listing import table
from turnkeeper.cli.outcome import print_json
from turnkeeper.cli.questions import Form, form_of, understand
from turnkeeper.cli.reach import SHOWN, run_of, service
from turnkeeper.cli.run import follow
from turnkeeper.cli.screen import screen_for
from turnkeeper.cli.terminal import FAILED, INTERRUPTED, AsJson, DataDir, busy, complain, whole
from turnkeeper.core.errors import InvalidRequest, RunNotWaiting

if TYPE_CHECKING:
    from turnkeeper.client import Client, Question, Receipt, Run, RunInfo

MOST_LISTED = 20


def reply(
    run_id: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]", help="Its id or the beginning of it, or last.", autocompletion=run_ids
        ),
    ] = None,
    text: Annotated[
        str | None,
        typer.Argument(metavar="[TEXT]", help="The answer: words, the number of an option, or - for stdin."),
    ] = None,
    to: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Only if this is the open question.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Then follow the run, as `run` does.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Answer the open question of a run.

    Without TEXT the question is shown, and you are asked. Without RUN it is the
    only run that waits.

    For example: turnkeeper reply last "A quiet alarm clock."

    Ends with 0 if the answer was taken, 1 if it was not (somebody was quicker),
    2 if there is nothing to answer; with --wait as `turnkeeper run` does.
    """
    with service(data_dir) as place:
        run = run_of(place.client, run_id) if run_id else _only_waiting(place.client)
        question = _open(run)
        before = run.info().last_seq
        answer = _answer(run, question, text, as_json=as_json)
        with whole():  # broken off in the middle, nobody could say whether it was taken
            receipt = run.reply(answer, interaction_id=to or question.interaction_id)
            if not wait:
                _tell_taken(run, receipt, as_json=as_json)
        if wait:
            manner = Manner(has_person() and not as_json, waits=False, after=before)
            raise typer.Exit(follow(place, run, manner, as_json=as_json))


def _tell_taken(run: Run, receipt: Receipt, *, as_json: bool) -> None:
    if as_json:
        print_json({"run_id": run.id, **receipt.to_dict()})
    else:
        typer.echo(f"Taken. Follow the run: turnkeeper watch {run.id[:SHOWN]}", err=True)


def _open(run: Run) -> Question:
    question = run.pending()
    if question is None:
        raise RunNotWaiting(f"run {run.id} is {run.info().status} and waits for no answer")
    return question


def _only_waiting(client: Client) -> Run:
    found = list(client.jobs(status="waiting_user", limit=MOST_LISTED + 1))
    if not found:
        raise RunNotWaiting("no run waits for an answer")
    if len(found) > 1:
        typer.echo(table(found[:MOST_LISTED]), err=True)
        raise InvalidRequest("several runs wait; say which: turnkeeper reply RUN")
    return client.job(found[0].run_id)


def _answer(run: Run, question: Question, text: str | None, *, as_json: bool) -> str:
    if text == "-":
        # From a pipe it is taken as it is: it may well begin with a number.
        answer: str | None = _piped()
    elif text is not None:
        answer = understand(form_of(question.to_dict()), text)
        if answer is None and text.strip():
            raise InvalidRequest("this cannot be allowed just once; answer by the number of an option")
    else:
        screen_for(silent=as_json).show(Asked(question.to_dict(), is_told=False))
        if as_json or not has_person():
            raise InvalidRequest(f'give the answer: turnkeeper reply {run.id[:SHOWN]} "…"')
        answer = _typed(run, form_of(question.to_dict()))
    if not answer:
        raise InvalidRequest("an empty text is no answer")
    return answer


def _piped() -> str:
    try:
        return read_stdin().strip()
    except UnicodeDecodeError as error:
        raise InvalidRequest("stdin is no text in UTF-8, and so no answer") from error


def _typed(run: Run, form: Form) -> str:
    desk = Desk()
    try:
        with desk.open():
            while (answer := understand(form, _lines(desk))) is None:
                pass
    except (KeyboardInterrupt, EOFError):
        complain(f"nothing was sent; run {run.id} goes on waiting")
        raise typer.Exit(INTERRUPTED) from None
    return answer


def _lines(desk: Desk) -> str:
    """Up to one that does not end with a backslash."""
    lines = [desk.ask("> ")]
    while lines[-1].endswith("\\"):
        lines[-1] = lines[-1][:-1]
        lines.append(desk.ask("… "))
    return "\n".join(lines)


def cancel(
    run_ids_: Annotated[
        list[str],
        typer.Argument(metavar="RUN", help="Its id or the beginning of it, or last.", autocompletion=run_ids),
    ],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Cancel runs, and wait until nothing of them is alive.

    For example: turnkeeper cancel last

    Ends with 0 if all of them are canceled, 1 if one had ended otherwise before,
    2 if there is no such run.
    """
    with service(data_dir) as place:
        runs = [run_of(place.client, each) for each in run_ids_]
        with busy("canceling"):
            for run in runs:
                run.cancel()
            ended = [_end(run) for run in runs]
    if as_json:
        print_json({"jobs": [each.to_dict() for each in ended]})
    for each in ended:
        if each.status != "canceled":
            complain(f"run {each.run_id} was over before: {each.status}")
        elif not as_json:
            typer.echo(f"Canceled {each.run_id}", err=True)
    if any(each.status != "canceled" for each in ended):
        raise typer.Exit(FAILED)


def _end(run: Run) -> RunInfo:
    """A live process is ended first; the last event of the log tells that it is gone."""
    info = run.info()
    if not info.is_over:
        for _ in run.events(after=info.last_seq):
            pass
    return run.info()
