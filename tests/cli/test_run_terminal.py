"""`turnkeeper run` at a real terminal: what is asked is answered there, and Ctrl-C is a question too."""

from __future__ import annotations

import json
import shlex

import pytest

from tests.cli.terminals import COMMAND, WORKS, Machine, Terminal

INTERVIEW = ("run", "interview", "--engine", "demo")
WORKING = ("run", "answer", "--engine", "demo", "--param", f"demo_script={json.dumps(WORKS)}")
MENU = "go on watching [Enter]? "


def in_its_middle(machine: Machine, child: Terminal) -> str:
    """The agent has spoken, and waits for a file."""
    child.sees("Working.", "at work")
    return str(machine.newest()["run_id"])


def test_a_conversation_by_words_and_by_number(machine: Machine) -> None:
    with machine.terminal(*INTERVIEW) as child:
        child.asks("starting the service", "What is the project, in one sentence?", "Question 1")
        child.sendline("A quiet alarm clock.")
        child.asks("Who is it for", "Question 2")
        child.sendline("")
        child.asks("please type an answer")
        child.sendline("couples who get up \\")
        child.sees("… ")
        child.sendline("at different times")
        child.asks(
            "Question 3", "1. ", "When one team uses it every week", "2. ", "When it saves an hour a day"
        )
        child.sendline("2")
        child.sees("succeeded")
        told = child.ends(0)
    result = json.loads(told[told.index("{") :])
    assert result["project"] == "A quiet alarm clock."
    assert result["audience"] == "couples who get up \nat different times"
    assert result["success"] == "it saves an hour a day"


def test_the_rest_of_a_paste_answers_no_other_question(machine: Machine) -> None:
    with machine.terminal(*INTERVIEW) as child:
        child.asks("Question 1")
        child.send("A clock.\nthat is quiet\nand cheap\n")
        child.asks("Question 2", "lines typed before this question were dropped")
        child.sendline("Sleepers.")
        child.asks("Question 3")
        child.sendeof()
        child.ends(3)
    assert [each["response"] for each in history(machine)] == ["A clock.", "Sleepers.", None]


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_no_colours_for_who_wants_none(machine: Machine, name: str, value: str) -> None:
    machine.env[name] = value
    with machine.terminal("run", "meeting-notes", "--engine", "demo", "--input", "notes=a") as child:
        child.expect_exact("succeeded  run")  # without an end of a colour in between


def test_the_result_alone_goes_where_stdout_goes(machine: Machine) -> None:
    with machine.terminal(shell=f"{shlex.join([*COMMAND, *INTERVIEW])} > result.json") as child:
        for number, answer in enumerate(["A clock.", "Sleepers.", "1"], 1):
            child.asks(f"Question {number}")
            child.sendline(answer)
        child.ends(0)
    assert json.loads((machine.home / "result.json").read_text())["project"] == "A clock."


def test_ctrl_c_then_cancel(machine: Machine) -> None:
    with machine.terminal(*WORKING) as child:
        run_id = in_its_middle(machine, child)
        child.sendintr()
        child.sees(MENU)
        child.sendline("c")
        child.sees("canceled", run_id)
        child.ends(4)
    assert machine.newest()["status"] == "canceled"


def test_ctrl_c_then_detach_and_come_back(machine: Machine) -> None:
    with machine.terminal(*WORKING) as child:
        run_id = in_its_middle(machine, child)
        child.sendintr()
        child.sees(MENU)
        child.sendline("d")
        assert f"turnkeeper watch {run_id[:12]}" in child.ends(0)
    assert machine.newest()["status"] == "running"
    with machine.terminal("watch", run_id[:12]) as child:
        child.sees("Working.")
        (machine.workspace(run_id) / "go").touch()
        child.sees("succeeded", '"answer"')
        child.ends(0)


def test_ctrl_c_twice_detaches(machine: Machine) -> None:
    with machine.terminal(*WORKING) as child:
        run_id = in_its_middle(machine, child)
        child.sendintr()
        child.sees(MENU)
        child.sendintr()
        assert "Detached." in child.ends(0)
    (machine.workspace(run_id) / "go").touch()
    assert machine.told("result", run_id, "--wait")["run"]["status"] == "succeeded"


def test_ctrl_c_and_on_with_it(machine: Machine) -> None:
    with machine.terminal(*WORKING) as child:
        run_id = in_its_middle(machine, child)
        child.sendintr()
        child.sees(MENU)
        child.sendline("")
        child.sees("at work")
        (machine.workspace(run_id) / "go").touch()
        child.sees("succeeded")
        child.ends(0)


def test_ctrl_c_at_a_question(machine: Machine) -> None:
    with machine.terminal(*INTERVIEW) as child:
        child.asks("Question 1")
        child.send("half an ans")
        child.sendintr()
        child.sees(MENU)
        child.sendline("")
        child.sees("> ")
        child.sendline("A clock.")
        child.asks("Question 2")
        child.sendintr()
        child.sees(MENU)
        child.sendline("c")
        child.ends(4)
    assert [each["response"] for each in history(machine)] == ["A clock.", None]


def test_end_of_input_leaves_the_question_open(machine: Machine) -> None:
    with machine.terminal(*INTERVIEW) as child:
        child.asks("Question 1")
        child.sendeof()
        assert "turnkeeper reply" in child.ends(3)


@pytest.mark.failure("H02")
def test_somebody_else_is_quicker(machine: Machine) -> None:
    with machine.terminal(*INTERVIEW) as child:
        child.asks("Question 1")
        child.send("half an ans")
        taken = machine.call("reply", "last", "A clock, from elsewhere.")
        assert taken.returncode == 0, taken.stderr
        child.sees("A clock, from elsewhere.", "answered elsewhere")
        child.asks("Question 2")
        child.sendline("Sleepers.")
        child.asks("Question 3")
        child.sendintr()
        child.sees(MENU)
        child.sendline("c")
        child.ends(4)
    assert [each["response"] for each in history(machine)[:2]] == ["A clock, from elsewhere.", "Sleepers."]


def test_the_run_is_canceled_elsewhere_while_a_question_is_open(machine: Machine) -> None:
    with machine.terminal(*INTERVIEW) as child:
        child.asks("Question 1")
        assert machine.call("cancel", "last").returncode == 0
        child.sees("canceled")
        child.ends(4)


def test_the_time_is_up_while_a_question_is_open(machine: Machine) -> None:
    assert machine.call(*INTERVIEW).returncode == 3
    with machine.terminal("watch", "last", "--timeout", "5") as child:
        child.asks("Question 1")
        assert "turnkeeper watch" in child.ends(5)
    assert machine.newest()["status"] == "waiting_user"


def test_a_permission(machine: Machine) -> None:
    words = ("run", "answer", "--engine", "demo", "--interactive", "--permissions", "ask")
    with machine.terminal(*words, "--param", "demo_script=permission") as child:
        child.asks("Permission 1", "touch note.txt", "1. ", "Allow once", "answer before")
        child.sendline("y")
        child.sees('"answer"', "allow")
        child.ends(0)


def test_reply_shows_the_question_and_asks(machine: Machine) -> None:
    assert machine.call(*INTERVIEW).returncode == 3
    with machine.terminal("reply") as child:
        child.asks("What is the project, in one sentence?")
        child.sendline("A clock.")
        child.sees("Taken.")
        child.ends(0)
    with machine.terminal("reply", "last") as child:
        child.asks("Who is it for")
        child.sendintr()
        child.sees("nothing was sent")
        child.ends(130)


@pytest.mark.failure("V01")
def test_the_service_is_killed_in_the_middle_of_a_turn(machine: Machine) -> None:
    with machine.terminal(*WORKING) as child:
        run_id = in_its_middle(machine, child)
        killed = machine.kill_service()
        child.sees("the service is gone", "it is tried again", "Working.")
        assert machine.service not in (None, killed)
        (machine.workspace(run_id) / "go").touch()
        child.sees("succeeded")
        child.ends(0)


@pytest.mark.failure("V01")
def test_the_service_is_killed_while_a_question_is_open(machine: Machine) -> None:
    with machine.terminal(*INTERVIEW) as child:
        child.asks("Question 1")
        machine.kill_service()
        child.sendline("A clock.")
        child.asks("the service is gone", "Question 2")
        child.sendeof()
        child.ends(3)
    assert history(machine)[0]["response"] == "A clock."


def test_an_answer_that_cannot_be_sent_is_kept(machine: Machine) -> None:
    assert machine.call(*INTERVIEW).returncode == 3
    with machine.client() as client:
        url = client.url
    address = f"TURNKEEPER_URL={url} TURNKEEPER_TOKEN={(machine.data / 'token').read_text().strip()}"
    with machine.terminal(shell=f"{address} {shlex.join([*COMMAND, 'watch'])}") as child:
        child.asks("Question 1")
        machine.kill_service()
        child.sendline("A clock.")
        child.asks("not sent, try it again: ")
        child.sees("A clock.")
        service = machine.begin("serve", "--port", url.rpartition(":")[2])
        try:
            machine.until(lambda: machine.service == service.pid)
            child.sendline("")
            child.asks("Question 2")
            child.sendeof()
            child.ends(3)
            assert history(machine)[0]["response"] == "A clock."
        finally:
            service.terminate()
            service.communicate()


def test_ctrl_c_at_a_confirmation(machine: Machine) -> None:
    with machine.terminal("skills", "remove", "answer") as child:
        child.sees("Remove answer?")
        child.sendintr()
        assert "interrupted" in child.ends(130)


def history(machine: Machine) -> list[dict[str, object]]:
    with machine.client() as client:
        return [each.to_dict() for each in client.job(str(machine.newest()["run_id"])).history()]
