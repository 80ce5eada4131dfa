"""Answers every run that waits for a person, side by side, until each has ended: by its first option, else by TEXT.

python examples/python/answer_all.py "Use your own judgement."
"""

from __future__ import annotations

import asyncio
import sys

from turnkeeper.client import AsyncClient, AsyncRun, ClientError, RunFailed, WaitingForPerson


async def answer(run: AsyncRun, text: str) -> str:
    """How it ended."""
    while True:
        try:
            await run.result()
            return "succeeded"
        except WaitingForPerson as waiting:
            question = waiting.info.pending
            said = question.options[0].value if question and question.options else text
            await run.reply(said, waiting.info.pending_interaction_id)
        except RunFailed as failed:
            return f"failed: {failed.code}"


async def main(text: str) -> None:
    async with AsyncClient() as client:
        waiting = [client.job(info.run_id) async for info in client.jobs(status="waiting_user")]
        endings = await asyncio.gather(*(answer(run, text) for run in waiting))
    for run, ending in zip(waiting, endings, strict=True):
        print(run.id, ending)


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "Use your own judgement."))
    except ClientError as error:
        sys.exit(str(error))
