"""Creating a job: what a request may say, and what it is told when it says something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.harness import Client, Json, opened
from tests.spec.scripts import INTERACTIVE, script
from tests.web.problems import assert_problem
from tests.web.requests import DONE, JOB, post, post_text
from turnkeeper.core.errors import Code

OPTIONS: Json = {
    "execution_mode": "interactive",
    "interactive_require_user_reply": False,
    "session_timeout_sec": 77,
    "interactive_profile": "resumable",
    "permissions": "allow",
    "timeouts": {"turn_sec": 50},
    "on_interrupted": "fail",
}


class TestShape:
    """The request before anybody knows what it asks for."""

    @pytest.mark.parametrize(
        ("more", "name"),
        [
            ({"skil_id": "answer"}, "skil_id"),
            ({"runtime_options": {"execution_mod": "auto"}}, "execution_mod"),
            ({"runtime_options": {"skill_id": "answer"}}, "skill_id"),
            ({"timeouts": {"idle": 5}}, "idle"),
            ({"runtime_options": {"timeouts": {"idle": 5}}}, "idle"),
            ({"interactive_profile": {"kind": "auto", "slots": 1}}, "slots"),
        ],
    )
    async def test_unknown_field_is_named(self, client: Client, more: Json, name: str) -> None:
        problem = assert_problem(await post(client, JOB | more), 400, Code.UNKNOWN_FIELD)
        assert problem["detail"] == f"unknown field(s): {name}"

    async def test_every_unknown_field_is_named(self, client: Client) -> None:
        answer = await post(client, JOB | {"one": 1, "two": 2, "model": 3})
        problem = assert_problem(answer, 400, Code.UNKNOWN_FIELD)
        assert problem["detail"] == "unknown field(s): one, two"
        assert [error.split(":")[0] for error in problem["errors"]] == [
            "/body/model",
            "/body/one",
            "/body/two",
        ]

    @pytest.mark.parametrize(
        ("more", "pointer"),
        [
            ({"skill_id": None}, "/body/skill_id"),
            ({"skill_id": 5}, "/body/skill_id"),
            ({"skill_id": ""}, "/body/skill_id"),
            ({"skill_id": "x" * 201}, "/body/skill_id"),
            ({"engine": ""}, "/body/engine"),
            ({"engine": ["demo"]}, "/body/engine"),
            ({"input": []}, "/body/input"),
            ({"input": "text"}, "/body/input"),
            ({"parameter": 5}, "/body/parameter"),
            ({"model": {}}, "/body/model"),
            ({"execution_mode": "manual"}, "/body/execution_mode"),
            ({"interactive_require_user_reply": "perhaps"}, "/body/interactive_require_user_reply"),
            ({"session_timeout_sec": 0}, "/body/session_timeout_sec"),
            ({"session_timeout_sec": -1}, "/body/session_timeout_sec"),
            ({"session_timeout_sec": 1e300}, "/body/session_timeout_sec"),
            ({"session_timeout_sec": "soon"}, "/body/session_timeout_sec"),
            ({"permissions": "perhaps"}, "/body/permissions"),
            ({"timeouts": {"idle_sec": 0}}, "/body/timeouts/idle_sec"),
            ({"timeouts": 5}, "/body/timeouts"),
            ({"on_interrupted": "retry"}, "/body/on_interrupted"),
            ({"runtime_options": None}, "/body/runtime_options"),
            ({"runtime_options": {"execution_mode": 1}}, "/body/runtime_options/execution_mode"),
        ],
    )
    async def test_wrong_value_is_found_by_its_place(self, client: Client, more: Json, pointer: str) -> None:
        problem = assert_problem(await post(client, JOB | more), 400, Code.INVALID_REQUEST)
        assert problem["errors"][0].startswith(f"{pointer}: ")
        assert problem["errors"][0] in problem["detail"]

    @pytest.mark.parametrize("body", [None, [], "text", 5, {}, {"engine": "demo"}])
    async def test_what_is_no_job_at_all_is_refused(self, client: Client, body: Any) -> None:
        assert_problem(await post(client, body), 400, Code.INVALID_REQUEST)

    @pytest.mark.parametrize(
        "text", ["", "{", "{]", "nonsense", '{"skill_id": "answer"', "\0", "[" * 100_000]
    )
    async def test_what_is_not_json_is_refused(self, client: Client, text: str) -> None:
        assert_problem(await post_text(client, "/v1/jobs", text), 400, Code.INVALID_REQUEST)

    async def test_body_of_another_type_is_refused(self, client: Client) -> None:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
            answer = await client.http.post(
                "/v1/jobs", content=b'{"skill_id": "answer"}', headers={"Content-Type": kind}
            )
            assert_problem(answer, 400, Code.INVALID_REQUEST)

    @pytest.mark.parametrize(
        "value", ["NaN", "Infinity", "-Infinity", "1e999", r'"\ud800"', r'{"\udfff": 1}']
    )
    @pytest.mark.parametrize("where", ["input", "parameter"])
    async def test_what_json_cannot_say_again_is_refused(
        self, client: Client, value: str, where: str
    ) -> None:
        text = f'{{"skill_id": "answer", "engine": "demo", "{where}": {{"a": [{value}]}}}}'
        problem = assert_problem(await post_text(client, "/v1/jobs", text), 400, Code.INVALID_REQUEST)
        assert problem["errors"][0].startswith(f"/body/{where}: ")

    async def test_input_may_be_deep_and_its_numbers_large(self, client: Client) -> None:
        deep = "[" * 300 + "]" * 300
        text = f'{{"skill_id": "answer", "engine": "demo", "input": {{"deep": {deep}, "large": {10**40}}}}}'
        headers = {"Content-Type": "application/json", "Idempotency-Key": "deep"}
        answers = [await client.http.post("/v1/jobs", content=text, headers=headers) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [200, 200]
        assert answers[0].json()["run_id"] == answers[1].json()["run_id"]


class TestOptions:
    """Options may stand at the top or in `runtime_options`."""

    @pytest.mark.parametrize("place_of", ["top", "nested", "both"])
    async def test_the_same_in_both_places(self, client: Client, place_of: str) -> None:
        body = dict(JOB)
        if place_of != "nested":
            body |= OPTIONS
        if place_of != "top":
            body["runtime_options"] = OPTIONS
        answer = await post(client, body)
        assert answer.status_code == 200, answer.text
        run = await client.settled(answer.json()["run_id"])
        assert run["execution_mode"] == "interactive"
        assert run["interactive_require_user_reply"] is False
        assert run["session_timeout_sec"] == 77
        assert run["interactive_profile"] == {"kind": "resumable", "reason": "asked for by the job"}
        assert run["on_interrupted"] == "fail"
        assert run["wait_deadline_at"] is not None

    @pytest.mark.parametrize(
        ("name", "top", "nested"),
        [
            ("execution_mode", "auto", "interactive"),
            ("interactive_require_user_reply", True, False),
            ("session_timeout_sec", 5, 6),
            ("interactive_profile", "auto", "resumable"),
            ("interactive_profile", {"kind": "auto"}, {"kind": "resumable"}),
            ("timeouts", {"idle_sec": 5}, {"idle_sec": 5, "turn_sec": 6}),
            ("on_interrupted", "fail", "resume"),
        ],
    )
    async def test_two_different_values_are_a_conflict(
        self, client: Client, name: str, top: Any, nested: Any
    ) -> None:
        answer = await post(client, JOB | {name: top, "runtime_options": {name: nested}})
        problem = assert_problem(answer, 400, Code.OPTION_CONFLICT)
        assert problem["detail"].startswith(f"{name} is given twice")

    @pytest.mark.parametrize(
        ("name", "top", "nested"),
        [
            ("session_timeout_sec", 5, 5.0),
            ("interactive_profile", "resumable", {"kind": "resumable"}),
            ("timeouts", {"idle_sec": 5}, {"idle_sec": 5, "turn_sec": None}),
            ("execution_mode", "auto", None),
        ],
    )
    async def test_the_same_value_said_differently_is_none(
        self, client: Client, name: str, top: Any, nested: Any
    ) -> None:
        answer = await post(client, JOB | {name: top, "runtime_options": {name: nested}})
        assert answer.status_code == 200, answer.text

    @pytest.mark.parametrize(
        ("given", "kind", "reason"),
        [
            (None, "resumable", "the engine can resume a session in a new process"),
            ("auto", "resumable", "the engine can resume a session in a new process"),
            ({"kind": "auto"}, "resumable", "the engine can resume a session in a new process"),
            ("resumable", "resumable", "asked for by the job"),
            ({"kind": "resumable"}, "resumable", "asked for by the job"),
            ("sticky_process", "sticky_process", "asked for by the job"),
            ({"kind": "sticky_process"}, "sticky_process", "asked for by the job"),
        ],
    )
    async def test_profile_is_a_word_or_an_object(
        self, client: Client, given: Any, kind: str, reason: str
    ) -> None:
        run_id = await client.create("answer", script([DONE]), interactive_profile=given, **INTERACTIVE)
        run = await client.ended(run_id)
        assert run["interactive_profile"] == {"kind": kind, "reason": reason}
        assert run["status"] == "succeeded"

    @pytest.mark.parametrize("given", ["sticky", "", 5, {}, {"kind": "sticky"}, {"kind": None}, ["auto"]])
    async def test_unknown_profile_is_refused(self, client: Client, given: Any) -> None:
        answer = await post(client, JOB | {"interactive_profile": given})
        problem = assert_problem(answer, 400, Code.INVALID_REQUEST)
        assert "/body/interactive_profile" in problem["detail"]


class TestSkillAndEngine:
    async def test_unknown_skill_names_those_there_are(self, client: Client) -> None:
        problem = assert_problem(await post(client, JOB | {"skill_id": "nobody"}), 404, Code.SKILL_NOT_FOUND)
        assert "'nobody'" in problem["detail"]
        assert "answer" in problem["detail"]

    @pytest.mark.parametrize("skill", ["../answer", "answer/", "/etc", "..", "answer\n", "SKILL.md"])
    async def test_a_skill_is_named_and_not_walked_to(self, client: Client, skill: str) -> None:
        assert_problem(await post(client, JOB | {"skill_id": skill}), 404, Code.SKILL_NOT_FOUND)

    async def test_unknown_engine_is_refused(self, client: Client) -> None:
        answer = await post(client, {"skill_id": "plain", "engine": "nobody"})
        problem = assert_problem(answer, 404, Code.ENGINE_NOT_FOUND)
        assert "demo" in problem["detail"], "those that there are"

    async def test_engine_that_the_skill_excludes_is_refused(self, client: Client) -> None:
        answer = await post(client, {"skill_id": "no-demo", "engine": "demo"})
        assert_problem(answer, 400, Code.SKILL_ENGINE_UNSUPPORTED)

    async def test_mode_that_the_skill_excludes_is_refused(self, client: Client) -> None:
        answer = await post(client, {"skill_id": "talk-only", "engine": "demo", "execution_mode": "auto"})
        assert_problem(answer, 400, Code.SKILL_EXECUTION_MODE_UNSUPPORTED)

    async def test_demo_is_never_chosen_by_surprise(self, client: Client) -> None:
        problem = assert_problem(await post(client, {"skill_id": "answer"}), 409, Code.ENGINE_NOT_READY)
        assert '"engine": "demo"' in problem["detail"]

    async def test_default_engine_is_the_operators_choice(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "data", default_engine="demo") as place:
            demo = (await place.client.http.get("/v1/engines/demo")).json()
            assert demo["default"] is True
            answer = await post(place.client, {"skill_id": "answer", "parameter": {"demo_script": "done"}})
            assert (await place.client.ended(answer.json()["run_id"]))["engine"] == "demo"

    async def test_broken_skill_lists_its_problems(self, tmp_path: Path) -> None:
        broken = tmp_path / "skills" / "broken"
        (broken / "assets").mkdir(parents=True)
        (broken / "SKILL.md").write_text("Hello")
        (broken / "assets" / "runner.json").write_text('{"max_attempt": 0, "engines": "demo"}')
        async with opened(tmp_path / "data", skills_dir=(tmp_path / "skills",)) as place:
            answer = await post(place.client, {"skill_id": "broken", "engine": "demo"})
            problem = assert_problem(answer, 400, Code.SKILL_BROKEN)
            assert len(problem["problems"]) == 2
            listed = (await place.client.http.get("/v1/skills")).json()["skills"]
            assert [skill["problems"] for skill in listed] == [problem["problems"]]


class TestInput:
    async def test_every_error_is_listed_by_its_pointer(self, client: Client) -> None:
        wrong = {"pages": 0, "tags": ["a", 5, None], "a/b~c": "no", "colour": "red"}
        answer = await client.post_job("typed", "done", input=wrong)
        problem = assert_problem(answer, 400, Code.INPUT_INVALID)
        pointers = sorted(error.split(": ")[0] for error in problem["errors"])
        assert pointers == [
            "/input",
            "/input",
            "/input/a~1b~0c",
            "/input/pages",
            "/input/tags/1",
            "/input/tags/2",
        ]
        assert all(error in problem["detail"] for error in problem["errors"])
        assert "title" in problem["detail"]
        assert "colour" in problem["detail"]

    async def test_parameters_are_held_to_their_schema_too(self, client: Client) -> None:
        answer = await client.post_job("typed", "done", input={"title": "Bees"}, parameter={"depth": "deep"})
        problem = assert_problem(answer, 400, Code.INPUT_INVALID)
        assert [error.split(": ")[0] for error in problem["errors"]] == ["/parameter/depth"]

    async def test_defaults_reach_the_engine(self, client: Client) -> None:
        words = "{{input.title}}, {{input.tone}}, {{parameter.style}}, {{parameter.depth}}"
        play = script([{"result": {"answer": words}}])
        run_id = await client.create("typed", play, input={"title": "Bees"}, parameter={"depth": 5})
        assert (await client.ended(run_id))["status"] == "succeeded"
        assert await client.result(run_id) == {"answer": "Bees, friendly, short, 5"}

    async def test_skill_without_schemas_takes_any_input(self, client: Client) -> None:
        play = script([{"result": {"answer": "{{input.anything}}"}}])
        run_id = await client.create("answer", play, input={"anything": {"goes": [1, None, "ü"]}})
        await client.ended(run_id)
        assert await client.result(run_id) == {"answer": '{"goes": [1, null, "ü"]}'}
