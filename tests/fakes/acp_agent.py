"""An agent made with the official ACP library: what our client says must be what the protocol means."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import acp
from acp import schema


class Agent:
    """Thinks, uses a tool after asking for permission, and echoes the prompt. Sessions are files in the cwd."""

    def on_connect(self, conn: acp.Client) -> None:
        self._client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> acp.InitializeResponse:
        capabilities = schema.AgentCapabilities(load_session=True)
        return acp.InitializeResponse(protocol_version=protocol_version, agent_capabilities=capabilities)

    async def new_session(self, cwd: str, **_: Any) -> acp.NewSessionResponse:
        Path(cwd, "session-1").touch()
        return acp.NewSessionResponse(session_id="session-1")

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> acp.LoadSessionResponse:
        if not Path(cwd, session_id).exists():
            raise acp.RequestError.resource_not_found(session_id)
        await self._say(session_id, acp.update_user_message_text("an old question"))
        await self._say(session_id, acp.update_agent_message_text('an old answer {"__SKILL_DONE__": true}'))
        return acp.LoadSessionResponse()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> acp.PromptResponse:
        await self._say(session_id, acp.update_agent_thought_text("let me see"))
        await self._say(
            session_id, acp.start_tool_call("call-1", "write a file", kind="edit", status="pending")
        )
        outcome = await self._client.request_permission(
            session_id=session_id,
            tool_call=acp.update_tool_call("call-1"),
            options=[
                schema.PermissionOption(option_id="no", name="No", kind="reject_once"),
                schema.PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
            ],
        )
        done = acp.update_tool_call(
            "call-1", status="completed", raw_output={"outcome": outcome.outcome.model_dump()}
        )
        await self._say(session_id, done)
        for part in ("You said: ", prompt[0].text):
            await self._say(session_id, acp.update_agent_message_text(part))
        usage = schema.Usage(input_tokens=3, output_tokens=4, total_tokens=7)
        return acp.PromptResponse(stop_reason="end_turn", usage=usage)

    async def _say(self, session_id: str, update: Any) -> None:
        await self._client.session_update(session_id=session_id, update=update)


if __name__ == "__main__":
    sys.stderr.write("ready\n")
    agent: Any = Agent()  # only the calls that our client makes
    asyncio.run(acp.run_agent(agent))
