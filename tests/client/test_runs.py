"""Runs as a program meets them: begun, asked by, answered, ended. Against a real service."""

from __future__ import annotations

import asyncio
import json
import zipfile
from pathlib import Path

import pytest

from tests.client.services import Service
from tests.spec.scripts import ANSWER, ASK, QUESTION, Latch, script
from turnkeeper.client import (
    ApiError,
    AsyncClient,
    Client,
    ClientError,
    RunCanceled,
    RunFailed,
    WaitingForPerson,
)

ANSWERS = ("A quiet alarm clock.", "People who wake early.", "one team uses it every week")
TALK = script([ASK], [ANSWER])


def asking(client: Client) -> str:
    """The id of a run that waits."""
    run = client.run("answer", engine="demo", parameter={"demo_script": TALK}, interactive=True)
    assert run.info(wait=30).is_waiting
    return run.id


class TestRun:
    def test_a_run_without_questions(self, client: Client) -> None:
        run = client.run("meeting-notes", engine="demo", input={"notes": "We ship on Friday."})
        assert run.result(timeout=30)["decisions"] == ["We ship on Friday."]
        info = run.info()
        assert (info.status, info.is_over, info.is_waiting) == ("succeeded", True, False)
        assert (info.skill_id, info.engine, info.execution_mode) == ("meeting-notes", "demo", "auto")
        assert info.finished_at is not None
        assert info.finished_at >= info.created_at

    def test_a_talk(self, client: Client) -> None:
        run = client.run("interview", engine="demo", interactive=True)
        for answer in ANSWERS:
            with pytest.raises(WaitingForPerson) as waiting:
                run.result(timeout=30)
            question = waiting.value.info.pending
            assert question == run.pending()
            assert question is not None
            assert question.prompt in str(waiting.value)
            receipt = run.reply(answer)
            assert receipt.interaction_id == question.interaction_id
        assert run.result(timeout=30)["project"] == ANSWERS[0]
        assert [each.response for each in run.history()] == list(ANSWERS)
        assert run.pending() is None

    async def test_talks_side_by_side(self, aclient: AsyncClient) -> None:
        runs = [await aclient.run("interview", engine="demo", interactive=True) for _ in range(3)]

        async def talk(number: int) -> str:
            run = runs[number]
            async for event in run.events():
                if event.type == "user.input.required":
                    await run.reply(f"{number}: {event.data['interaction_id']}")
            return str((await run.result(timeout=30))["project"])

        assert await asyncio.gather(*map(talk, range(3))) == ["0: 1", "1: 1", "2: 1"]
        assert [each.resolution_mode for each in await runs[0].history()] == ["user_reply"] * 3

    def test_options_are_offered_as_records(self, client: Client) -> None:
        run = client.run("trip-plan", engine="demo", input={"destination": "Ghent"}, interactive=True)
        question = run.info(wait=30).run_id and run.pending()
        assert question
        assert (question.kind, question.options[0].value) == ("choose_one", "slow")
        assert question.ui_hints == {"free_text": True}
        listed = next(each for each in client.jobs(q=run.id) if each.run_id == run.id)
        assert listed.pending == question
        run.cancel()

    def test_other_fields_of_a_job_are_passed_on(self, client: Client) -> None:
        run = client.run(
            "answer",
            engine="demo",
            interactive=True,
            parameter={"demo_script": TALK},
            session_timeout_sec=77,
            interactive_profile="resumable",
            timeouts={"turn_sec": 55},
            model=None,
        )
        info = run.info(wait=30)
        assert (info.session_timeout_sec, info.timeouts["turn_sec"]) == (77, 55)
        assert info.interactive_profile is not None
        assert info.interactive_profile.kind == "resumable"
        asked = run.request()
        assert (asked["execution_mode"], asked["session_timeout_sec"]) == ("interactive", 77)
        run.cancel()

    def test_one_way_to_say_the_mode(self, client: Client) -> None:
        with pytest.raises(TypeError, match="either interactive or execution_mode"):
            client.run("answer", interactive=True, execution_mode="auto")

    def test_the_same_key_is_the_same_run(self, client: Client, service: Service) -> None:
        def start() -> str:
            return client.run("meeting-notes", "demo", {"notes": "x"}, idempotency_key=f"k {service.port}").id

        assert start() == start()
        with pytest.raises(ApiError) as refused:
            client.run("meeting-notes", "demo", {"notes": "y"}, idempotency_key=f"k {service.port}")
        assert refused.value.code == "IDEMPOTENCY_KEY_REUSED"


class TestReplies:
    def test_the_same_reply_again_gets_the_same_receipt(self, client: Client) -> None:
        run = client.job(asking(client))
        first = run.reply("blue", 1)
        assert run.reply("blue", 1).accepted_at == first.accepted_at
        with pytest.raises(ApiError) as refused:
            run.reply("green", 1)
        assert (refused.value.code, refused.value.status) == ("INTERACTION_ANSWERED", 409)
        assert run.result(timeout=30) == {"answer": "blue"}
        (answered,) = run.history()
        assert (answered.prompt, answered.response) == (QUESTION, "blue")

    def test_json_is_passed_on_as_text(self, client: Client) -> None:
        run = client.job(asking(client))
        run.reply({"colour": "blue"})
        assert json.loads(run.result(timeout=30)["answer"]) == {"colour": "blue"}

    def test_nobody_asks(self, client: Client) -> None:
        run = client.run("meeting-notes", "demo", {"notes": "x"})
        run.result(timeout=30)
        with pytest.raises(ApiError, match="waits for no reply") as refused:
            run.reply("blue")
        assert (refused.value.code, refused.value.facts) == ("RUN_NOT_WAITING", {"state": "succeeded"})


class TestEndings:
    def test_failure_is_typed(self, client: Client) -> None:
        bad = script([{"fail": {"code": "ENGINE_RATE_LIMITED", "message": "slow down"}}])
        run = client.run("answer", "demo", parameter={"demo_script": bad})
        with pytest.raises(RunFailed, match="slow down") as failed:
            run.result(timeout=30)
        assert failed.value.code == "ENGINE_RATE_LIMITED"
        assert failed.value.info.error is not None
        assert failed.value.info.error.message in str(failed.value)

    async def test_the_same_for_async(self, aclient: AsyncClient) -> None:
        run = await aclient.run("answer", "demo", parameter={"demo_script": script([{"exit": 3}])})
        with pytest.raises(RunFailed) as failed:
            await run.result(timeout=30)
        assert failed.value.info.run_id == run.id
        with pytest.raises(ApiError) as refused:
            await aclient.job("0" * 32).result()
        assert refused.value.code == "RUN_NOT_FOUND"

    def test_canceled(self, client: Client) -> None:
        run = client.job(asking(client))
        assert run.cancel().status == run.cancel().status == "canceled"
        with pytest.raises(RunCanceled):
            run.result(timeout=30)

    def test_a_wait_that_takes_too_long(self, client: Client, tmp_path: Path) -> None:
        latch = Latch(tmp_path)
        run = client.run("answer", "demo", parameter={"demo_script": script([*latch.steps, ANSWER])})
        with pytest.raises(TimeoutError, match="it goes on"):
            run.result(timeout=0)
        latch.open()
        assert run.result(timeout=30)


class TestFiles:
    def test_a_document(self, client: Client, tmp_path: Path) -> None:
        paper = tmp_path / "paper.md"
        paper.write_text("# On waiting\n\nIt is done by others.\n")
        run = client.run("document-summary", "demo", files={"document": paper})
        assert "On waiting" in run.result(timeout=30)["summary"]
        assert run.info().files == {"document": "uploads/paper.md"}
        (artifact,) = run.artifacts()
        assert (artifact.path, artifact.role) == ("summary.md", "summary")
        saved = run.download(artifact.path, tmp_path)
        assert saved == tmp_path / "summary.md"
        assert saved.stat().st_size == artifact.size
        assert run.download(artifact.path, tmp_path / "other.md").read_bytes() == saved.read_bytes()
        with zipfile.ZipFile(run.bundle(tmp_path)) as bundle:
            assert {"result.json", "manifest.json", "artifacts/summary.md"} <= set(bundle.namelist())

    async def test_bytes_and_names(self, aclient: AsyncClient, tmp_path: Path) -> None:
        first = await aclient.run("document-summary", "demo", files={"document": b"Some words"})
        second = await aclient.run("document-summary", "demo", files={"document": ("a b ü.txt", b"More")})
        assert "Some words" in (await first.result(timeout=30))["summary"]
        assert (await first.info()).files == {"document": "uploads/document"}
        assert "More" in (await second.result(timeout=30))["summary"]
        assert (await second.info()).files == {"document": "uploads/a b ü.txt"}
        saved = await second.download("summary.md", tmp_path)
        assert "a b ü.txt" in saved.read_text()
        assert (await second.bundle(tmp_path / "all.zip")).stat().st_size > 0

    def test_a_file_that_is_not_there_makes_no_run(self, client: Client, tmp_path: Path) -> None:
        before = sum(client.status().runs.values())  # those of other tests may be ending
        with pytest.raises(ClientError, match=r"nothing\.md cannot be read: No such file"):
            client.run("document-summary", "demo", files={"document": tmp_path / "nothing.md"})
        assert sum(client.status().runs.values()) == before

    def test_a_file_that_nobody_asked_for_leaves_no_run_behind(self, client: Client) -> None:
        with pytest.raises(ApiError) as refused:
            client.run("answer", "demo", files={"paper": b"words"})
        assert refused.value.code == "UPLOAD_NOT_EXPECTED"
        newest = next(client.jobs(skill_id="answer", limit=1))
        assert newest.ending is not None or newest.is_over

    def test_a_file_that_does_not_exist_in_the_run(self, client: Client, tmp_path: Path) -> None:
        run = client.run("meeting-notes", "demo", {"notes": "x"})
        run.result(timeout=30)
        for path in ("nothing.txt", "../escaped.txt", "."):
            with pytest.raises(ApiError) as refused:
                run.download(path, tmp_path / "saved")
            assert refused.value.code == "FILE_NOT_FOUND"
        assert [path.name for path in tmp_path.iterdir()] == ["home"], "half a file stays nowhere"
        with pytest.raises(ClientError, match="cannot be written"):
            run.bundle(tmp_path / "no" / "such" / "folder.zip")


class TestLogs:
    def test_raw_output_and_attempts(self, client: Client) -> None:
        run = client.job(asking(client))
        run.reply("blue")
        run.result(timeout=30)
        logs = [log for log in run.logs() if log.stream == "stdout"]
        assert [(log.attempt, log.try_number) for log in logs] == [(1, 1), (2, 1)]
        whole = run.log(1)
        assert len(whole) == logs[0].size
        said = next(event for event in run.history_events() if event.type == "assistant.message.final")
        assert said.raw_ref is not None
        words = run.log(said.attempt, said.raw_ref.try_number, said.raw_ref.stream, said.raw_ref.offset, 5)
        assert words == whole[said.raw_ref.offset :][:5]
        assert [(each.attempt, each.began_as) for each in run.attempts()] == [(1, "start"), (2, "reply")]
        assert run.attempts()[0].to_dict()["try"] == 1


class TestLists:
    def test_pages_by_itself(self, client: Client) -> None:
        started = [client.run("meeting-notes", "demo", {"notes": "x"}).id for _ in range(5)]
        for run_id in started:
            client.job(run_id).result(timeout=30)
        newest = [info.run_id for info in client.jobs(status="succeeded", skill_id="meeting-notes", limit=5)]
        assert newest == started[::-1]
        states = {info.status for info in client.jobs(status=["succeeded", "failed"])}
        assert states <= {"succeeded", "failed"}
        assert [info.run_id for info in client.jobs(engine="demo", limit=1)] == newest[:1]

    def test_more_than_a_page(self, client: Client) -> None:
        script_of_many = script([*({"say": f"word {n}"} for n in range(1100)), {"result": {"answer": "x"}}])
        run = client.run("answer", "demo", parameter={"demo_script": script_of_many})
        run.result(timeout=30)
        events = list(run.history_events())
        assert [event.seq for event in events] == list(range(1, run.info().last_seq + 1))
        assert len(events) > 1000
        assert list(run.history_events(3, 7)) == events[2:7]
        assert list(run.history_events(limit=1005)) == events[:1005]
        assert list(run.events()) == events
