"""Runs driven by programs: without a terminal, with and without a service, by exit codes and JSON."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.cli.terminals import COMMAND, EXAMPLES, WORKS, Machine
from tests.cli.test_serve import served
from tests.client.services import Cable
from tests.harness import PATIENCE
from turnkeeper.client import Client, ServiceNotFound

NOTES = ("run", "meeting-notes", "--engine", "demo", "--input", "notes=We ship on Friday.")
INTERVIEW = ("run", "interview", "--engine", "demo")
WORKING = ("run", "answer", "--engine", "demo", "--param", f"demo_script={json.dumps(WORKS)}")


def test_the_result_alone_on_stdout(machine: Machine) -> None:
    ended = machine.call(*NOTES)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["decisions"] == ["We ship on Friday."]
    assert "succeeded" in ended.stderr
    told = machine.told(*NOTES)
    assert (told["run"]["status"], told["pending"]) == ("succeeded", None)
    assert told["result"] == json.loads(ended.stdout)


def test_a_service_is_started_and_found_and_stops_by_itself(machine: Machine) -> None:
    busy = machine.call(*WORKING, "--detach").stdout.strip()
    started = machine.service
    assert started is not None
    assert (machine.data / "service.log").stat().st_mode & 0o777 == 0o600
    assert machine.call(*NOTES).returncode == 0
    assert machine.processes() == [started], "the second command found it"
    machine.until(machine.workspace(busy).is_dir)
    (machine.workspace(busy) / "go").touch()
    machine.until(lambda: not machine.processes())
    assert "nothing was to do" in (machine.data / "service.log").read_text()
    assert machine.told("result", busy)["run"]["status"] == "succeeded", "it is there again when it is needed"


def test_what_a_script_has_open_is_not_kept_by_the_service(machine: Machine) -> None:
    """Such as its lock: it would be held until the service stops."""
    ours, theirs = os.pipe()
    with os.fdopen(ours) as end:
        try:
            subprocess.run([*COMMAND, "list"], env=machine.env, pass_fds=[theirs], check=True)
        finally:
            os.close(theirs)
        assert machine.service is not None
        assert select.select([end], [], [], 0)[0], "nobody else holds the other end"


def test_a_question_without_a_terminal(machine: Machine) -> None:
    asked = machine.call(*INTERVIEW)
    assert (asked.returncode, asked.stdout) == (3, "")
    run_id = machine.newest()["run_id"]
    assert "What is the project, in one sentence?" in asked.stderr
    assert f'turnkeeper reply {run_id[:12]} "…"' in asked.stderr
    taken = machine.told("reply", run_id[:12], "A clock.")
    assert (taken["run_id"], taken["interaction_id"]) == (run_id, 1)
    waiting = machine.told("reply", "last", "Sleepers.", "--wait", code=3)
    assert [option["label"] for option in waiting["pending"]["options"]][1] == "When it saves an hour a day"
    ended = machine.call("reply", "last", "2", "--wait")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["success"] == "it saves an hour a day"
    result = machine.call("result", run_id)
    assert result.stdout == ended.stdout


def test_an_answer_from_elsewhere_is_waited_for(machine: Machine) -> None:
    waiting = machine.begin(*INTERVIEW, "--wait")
    for number, answer in enumerate(("A clock.", "Sleepers.", "1"), 1):
        machine.until(partial(asked, machine, number))
        assert machine.call("reply", "last", answer).returncode == 0
    told, about = waiting.communicate(timeout=PATIENCE)
    assert waiting.returncode == 0, about
    assert json.loads(told)["audience"] == "Sleepers."
    assert about.count("answer it: turnkeeper reply") == 3


def asked(machine: Machine, number: int) -> bool:
    try:
        with machine.client() as client:
            return [run.pending_interaction_id for run in client.jobs(status="waiting_user")] == [number]
    except ServiceNotFound:
        return False  # it is only starting


def test_a_run_that_fails(machine: Machine) -> None:
    failed = machine.call(*NOTES, "--param", "demo_script=auth_required")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "[ENGINE_AUTH_REQUIRED]" in failed.stderr
    assert "turnkeeper engines doctor demo" in failed.stderr
    told = machine.told(*NOTES, "--param", "demo_script=crash", code=1)
    assert (told["run"]["error"]["code"], told["result"]) == ("ENGINE_CRASHED", None)


def test_the_time_is_up_and_the_run_goes_on(machine: Machine) -> None:
    left = machine.call(*WORKING, "--timeout", "0.5")
    assert left.returncode == 5
    run = machine.newest()
    assert f"turnkeeper watch {run['run_id'][:12]}" in left.stderr
    assert run["status"] in ("queued", "running")
    assert machine.call("result", "last").returncode == 1
    assert machine.call("result", "last", "--wait", "--timeout", "0.2").returncode == 5
    alone = machine.call("result", "last", "--timeout", "0.2")
    assert (alone.returncode, alone.stderr) == (2, "turnkeeper: --timeout is for waiting: say --wait too\n")
    canceled = machine.call("cancel", "last")
    assert canceled.returncode == 0, canceled.stderr
    assert machine.call("result", "last").returncode == 4
    assert machine.call("watch", "last").returncode == 4


def test_times_and_numbers_without_an_end(machine: Machine) -> None:
    for seconds in ("inf", "1e300"):
        assert machine.call(*NOTES, "--timeout", seconds).stderr.startswith("· meeting-notes on demo")
        assert machine.call("watch", "last", "--json", "--timeout", seconds).returncode == 0
    assert machine.call("list", "--limit", "9" * 20).returncode == 0


def test_detached(machine: Machine) -> None:
    started = machine.call(*WORKING, "--detach")
    run_id = started.stdout.strip()
    assert (started.returncode, machine.newest()["run_id"]) == (0, run_id)
    machine.until((machine.workspace(run_id)).is_dir)
    (machine.workspace(run_id) / "go").touch()
    events = machine.call("watch", run_id, "--json")
    assert events.returncode == 0
    seen = [json.loads(line) for line in events.stdout.splitlines()]
    assert [event["seq"] for event in seen] == list(range(1, len(seen) + 1))
    assert seen[-1]["type"] == "conversation.completed"


def test_interrupted_without_a_terminal(machine: Machine) -> None:
    working = machine.begin(*WORKING)
    machine.until(lambda: list(machine.data.glob("runs/*/workspace")))
    working.send_signal(signal.SIGINT)
    _, about = working.communicate(timeout=PATIENCE)
    assert working.returncode == 130
    assert "The run goes on" in about
    assert machine.newest()["status"] == "running"
    assert machine.call("cancel", machine.newest()["run_id"]).returncode == 0


class TestHalfDone:
    """Ctrl-C while the service has heard already, and its answer is still on the way."""

    @pytest.fixture(autouse=True)
    def service(self, machine: Machine) -> Iterator[None]:
        """One that does not stop by itself, however long the commands take to load."""
        named = {name: value for name, value in machine.env.items() if name.startswith("TURNKEEPER_")}
        with served(machine.home, **named):
            yield

    @contextmanager
    def interrupted(self, machine: Machine, held: bytes, *words: str) -> Iterator[tuple[Client, str]]:
        """Once there is a run, and the call is made; with what the command said."""
        token = (machine.data / "token").read_text().strip()
        with machine.client() as client:
            with Cable(int(client.url.rpartition(":")[2]), delay=[held]) as cable:
                command = machine.begin(*words, TURNKEEPER_URL=cable.url, TURNKEEPER_TOKEN=token)
                assert cable.is_holding.wait(PATIENCE)
                machine.until(lambda: list(client.jobs()))
                command.send_signal(signal.SIGINT)
                cable.go.set()
                _, about = command.communicate(timeout=PATIENCE)
            assert command.returncode == 130
            yield client, about

    def test_the_id_of_a_run_is_told(self, machine: Machine) -> None:
        with self.interrupted(machine, b"POST /v1/jobs HTTP", *WORKING) as (client, about):
            (run,) = client.jobs()
            client.job(run.run_id).cancel()
        left = f"Interrupted. The run goes on; come back to it: turnkeeper watch {run.run_id[:12]}\n"
        assert about == left

    def test_a_reply_is_known_to_be_taken(self, machine: Machine) -> None:
        assert machine.call(*INTERVIEW).returncode == 3
        words = ("reply", "last", "A clock.")
        with self.interrupted(machine, b"/interaction/reply", *words) as (client, about):
            (run,) = client.jobs()
            assert client.job(run.run_id).history()[0].response == "A clock."
        assert about.startswith("Taken. ")


@pytest.mark.failure("V06")
def test_two_at_once_and_no_service(machine: Machine) -> None:
    both = [machine.begin(*NOTES) for _ in range(2)]
    for each in both:
        told, about = each.communicate(timeout=PATIENCE)
        assert each.returncode == 0, about
        assert json.loads(told)["decisions"] == ["We ship on Friday."]
    assert len(machine.told("list")["jobs"]) == 2


@pytest.mark.failure("V11")
def test_a_service_that_cannot_start(machine: Machine) -> None:
    (machine.data / "turnkeeper.db").mkdir(parents=True)
    refused = machine.call(*NOTES)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "cannot be opened" in refused.stderr, "its own last words"
    assert "service.log" in refused.stderr


@pytest.mark.failure("V03")
def test_a_disk_that_is_almost_full(machine: Machine) -> None:
    refused = machine.call(*NOTES, TURNKEEPER_MIN_FREE_MB="1000000000")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "no new work is taken" in refused.stderr
    assert "turnkeeper prune" in refused.stderr
    assert not machine.told("list")["jobs"]


class TestElsewhere:
    """With an address, nothing is ever started."""

    def test_nobody_answers(self, machine: Machine) -> None:
        env = {"TURNKEEPER_URL": "http://127.0.0.1:9", "TURNKEEPER_TOKEN": "a-token-for-tests-only"}
        refused = machine.call(*NOTES, **env)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert not machine.data.exists()

    def test_the_address_and_the_token(self, machine: Machine) -> None:
        named = {name: value for name, value in machine.env.items() if name.startswith("TURNKEEPER_")}
        with served(machine.home, **named):
            assert machine.call(*NOTES).returncode == 0
            with machine.client() as client:
                url = client.url
            self.check(machine, url)

    def check(self, machine: Machine, url: str) -> None:
        token = (machine.data / "token").read_text().strip()
        env = {
            "TURNKEEPER_URL": url,
            "TURNKEEPER_TOKEN": token,
            "TURNKEEPER_DATA_DIR": str(machine.home / "other"),
        }
        listed = machine.call("list", "--json", **env)
        assert len(json.loads(listed.stdout)["jobs"]) == 1
        shown = machine.call("show", "last", "--attempt", "1", **env)
        assert (shown.returncode, shown.stderr) == (0, "")
        assert "on the service's own machine" in shown.stdout
        wrong = machine.call("list", **env | {"TURNKEEPER_TOKEN": "another-token-of-some-length"})
        assert wrong.returncode == 2
        assert wrong.stderr.endswith("set TURNKEEPER_TOKEN to the token of that service, or to a key\n")


class TestSkills:
    def test_a_folder_is_installed_first(self, machine: Machine) -> None:
        machine.env["TURNKEEPER_SKILLS_DIR"] = ""
        skill = machine.home / "greeting"
        skill.mkdir()
        (skill / "SKILL.md").write_text("---\nname: greeting\ndescription: Greets.\n---\nGreet.\n")
        for path in ("greeting", f"{skill}/", "./greeting"):
            ended = machine.call("run", path, "--engine", "demo", "--auto")
            assert ended.returncode == 0, ended.stderr
            assert "Installed greeting" in ended.stderr

    def test_one_of_the_operators_is_run_as_it_is(self, machine: Machine) -> None:
        ended = machine.call("run", str(EXAMPLES / "meeting-notes"), *NOTES[2:])
        assert ended.returncode == 0, ended.stderr
        assert "Installed" not in ended.stderr

    def test_one_whose_folder_has_another_name(self, machine: Machine) -> None:
        folders = {"first": "second", "second": "third"}
        for name, skill_id in folders.items():
            skill = machine.home / "skills" / name
            (skill / "assets").mkdir(parents=True)
            (skill / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Greets.\n---\nGreet.\n")
            (skill / "assets" / "runner.json").write_text(json.dumps({"id": skill_id, "version": "1"}))
        machine.env["TURNKEEPER_SKILLS_DIR"] = str(machine.home / "skills")
        told = machine.told("run", "skills/second", "--engine", "demo", "--auto")
        assert told["run"]["skill_id"] == "third"

    def test_one_that_there_is_not(self, machine: Machine) -> None:
        missing = machine.call("run", "nothing-like-it", "--engine", "demo")
        assert missing.returncode == 2
        assert "[SKILL_NOT_FOUND]" in missing.stderr
        nameless = machine.call("run", "")
        assert (nameless.returncode, "the id of a skill" in nameless.stderr) == (2, True)
        folder = machine.call("run", "./nothing-like-it", "--engine", "demo")
        assert (folder.returncode, "nothing-like-it" in folder.stderr) == (2, True)


class TestInput:
    def test_every_error_with_the_option_for_it(self, machine: Machine) -> None:
        refused = machine.call(
            "run", "trip-plan", "--engine", "demo", "--input", "travellers=3", "--input", "shoes=two"
        )
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "[INPUT_INVALID]" in refused.stderr
        assert "(--input destination=…)" in refused.stderr
        assert machine.told("list")["jobs"] == []

    def test_what_is_no_input(self, machine: Machine) -> None:
        refused = machine.call(*NOTES, "--permissions", "maybe")
        assert refused.returncode == 2
        assert refused.stderr.startswith("turnkeeper: the service does not take this [INVALID_REQUEST]\n")
        assert refused.stderr.endswith("(--permissions)\n")

    def test_files(self, machine: Machine) -> None:
        report = machine.home / "report.md"
        report.write_text("# Third quarter\n\nSales fell.\n")
        words = ("run", "document-summary", "--engine", "demo", "--param", "length=short")
        missing = machine.call(*words)
        assert (missing.returncode, missing.stderr) == (
            2,
            "turnkeeper: the skill needs a file: --file document=PATH\n",
        )
        ended = machine.call(*words, "--file", f"document={report}")
        assert ended.returncode == 0, ended.stderr
        assert "summary.md" in ended.stderr
        listed = machine.told("artifacts", "last")["artifacts"]
        assert [each["path"] for each in listed] == ["summary.md"]
        fetched = machine.call("artifacts", "last", "--to", "out")
        assert (fetched.returncode, fetched.stdout) == (0, "out/summary.md\n")
        assert (machine.home / "out" / "summary.md").read_text().startswith("# Summary of report.md")
        assert machine.call("artifacts", "last", "summary.md", "--to", "out").returncode == 1
        assert machine.call("artifacts", "last", "summary.md", "--to", "out", "--force").returncode == 0
        nowhere = machine.call("artifacts", "last", "--to", str(report))
        assert (nowhere.returncode, "cannot be made" in nowhere.stderr) == (2, True)
        bundle = machine.told("artifacts", "last", "--bundle")["files"]
        assert Path(machine.home / bundle[0]).read_bytes().startswith(b"PK")

    def test_all_of_it_from_stdin(self, machine: Machine) -> None:
        given = json.dumps({"notes": "We ship on Monday.", "title": "Monday"})
        ended = machine.call(*NOTES[:4], "--input", "-", given=given)
        assert ended.returncode == 0, ended.stderr
        assert json.loads(ended.stdout)["title"] == "Monday"


class TestNames:
    def test_short_ids(self, machine: Machine) -> None:
        run_id = machine.told(*NOTES)["run"]["run_id"]
        assert machine.told("show", run_id[:12])["run_id"] == run_id
        assert machine.told("result", run_id[:12])["run"]["run_id"] == run_id
        assert machine.told("result", run_id.upper())["run"]["run_id"] == run_id
        for given, words in (
            ("0", "too short"),
            ("ffff", "there is no run 'ffff'"),
            ("f" * 32, f"there is no run '{'f' * 32}'"),
            ("f" * 33, f"there is no run '{'f' * 33}'"),
            ("f" * 31 + "/", "there is no run"),
            ("no run at all", "there is no run"),
        ):
            refused = machine.call("result", given)
            assert refused.returncode == 2
            assert words in refused.stderr
        machine.told(*NOTES)
        several = machine.call("result", run_id[:4])
        assert (several.returncode, "the beginning of 2 runs" in several.stderr) == (2, True)

    @pytest.mark.parametrize("command", ["run", "skills show"])
    def test_bytes_that_are_no_text(self, machine: Machine, command: str) -> None:
        refused = machine.call(*command.split(), "\udcff\udcfe\udcff\udcff")
        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr.endswith("is not UTF-8, which all names are written in\n")

    def test_nothing_is_there(self, machine: Machine) -> None:
        assert machine.call("list").stdout.startswith("There are no runs yet.")
        assert machine.call("list", "--waiting").stdout == "Nothing waits for you.\n"
        assert machine.call("list", "--status", "asleep").returncode == 2
        assert machine.call("watch").returncode == 2
        nobody = machine.call("reply")
        assert (nobody.returncode, nobody.stderr) == (2, "turnkeeper: no run waits for an answer\n")

    def test_which_of_several_waits(self, machine: Machine) -> None:
        for _ in range(2):
            assert machine.call(*INTERVIEW).returncode == 3
        several = machine.call("reply")
        assert several.returncode == 2
        assert several.stderr.count("interview") == 2
        assert "say which" in several.stderr
        stale = machine.call("reply", "last", "A clock.", "--to", "7")
        assert (stale.returncode, "[INTERACTION_STALE]" in stale.stderr) == (1, True)
        assert (
            machine.call("cancel", *(run["run_id"] for run in machine.told("list")["jobs"])).returncode == 0
        )


def test_the_past_is_told_as_past(machine: Machine) -> None:
    assert machine.call(*INTERVIEW).returncode == 3
    assert machine.call("reply", "last", "A clock.", "--wait").returncode == 3
    timeless = machine.call("watch", "last", "--timeout", "0", "--json")
    assert (timeless.returncode, "turnkeeper watch" in timeless.stderr) == (5, True)
    assert machine.call("cancel", "last").returncode == 0
    told = machine.call("watch", "last")
    assert told.returncode == 4
    assert "? Question 1" in told.stderr
    assert "? Question 2" in told.stderr
    assert "turnkeeper reply" not in told.stderr


def test_a_service_of_this_folder_that_does_not_run(machine: Machine) -> None:
    (machine.home / ".turnkeeper").mkdir()
    started = machine.call("list")
    assert f"--data-dir {machine.home}/.turnkeeper" in started.stderr
    assert machine.call("list").stderr == "", "it is told once, by who starts the other"


def test_an_address_for_a_browser(machine: Machine) -> None:
    told = machine.call("open", "--no-browser")
    assert told.returncode == 0, told.stderr
    with machine.client() as client:
        assert told.stdout.startswith(f"{client.url}/#code=")


def test_a_list_waits_for_nothing_that_it_does_not_need(machine: Machine) -> None:
    heavy = {"fastapi", "uvicorn", "jsonschema_rs", "rich", "turnkeeper.wiring"}
    code = (
        "import sys; from turnkeeper.__main__ import main\n"
        "try: main()\n"
        f"finally: print(*sorted({heavy!r} & set(sys.modules)), file=sys.stderr)"
    )
    ended = machine.call("list", by=(sys.executable, "-c", code))
    assert (ended.returncode, ended.stderr) == (0, "\n")


def test_interrupted_before_anything_is_loaded(machine: Machine) -> None:
    code = (
        "import sys\n"
        "class Impatient:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'turnkeeper.cli': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Impatient())\n"
        "from turnkeeper.__main__ import main; main()"
    )
    ended = machine.call("list", by=(sys.executable, "-c", code))
    assert (ended.returncode, ended.stderr) == (130, "")
