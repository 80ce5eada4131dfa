"""A bare fan-out: a server that writes each frame, made once, to all who are connected. A process of its own."""

from __future__ import annotations

import asyncio
import sys
import time

FRAME = b"event: chat_event\nid: 1\ndata: %s\n\n" % (b"x" * 330)
"""As large as that of a short message."""


class _Client(asyncio.Protocol):
    def __init__(self, arrived: asyncio.Queue[asyncio.Transport]) -> None:
        self._arrived = arrived

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._arrived.put_nowait(transport)


async def serve(count: int, rate: float, number: int) -> None:
    """Tells its port, waits for so many clients, sends them `count` frames, and tells what that has cost."""
    arrived = asyncio.Queue[asyncio.Transport]()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Client(arrived), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    clients = [await arrived.get() for _ in range(number)]
    cpu, began = time.process_time(), loop.time()
    for sent in range(count):
        await asyncio.sleep(began + sent / rate - loop.time())
        for client in clients:
            client.write(FRAME)
    print(time.process_time() - cpu, flush=True)


async def fanned_out(count: int, rate: float, number: int) -> float:
    """The processor time of one delivery."""
    words = (sys.executable, "-m", __name__, str(count), str(rate), str(number))
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    loop = asyncio.get_running_loop()
    port = int(await process.stdout.readline())
    for _ in range(number):  # they take what comes, and throw it away
        await loop.create_connection(asyncio.Protocol, "127.0.0.1", port)
    cpu = float(await process.stdout.readline())
    await process.wait()
    return cpu / count / number


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])))
