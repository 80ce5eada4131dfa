"""The server itself: HTTP on loopback, one thread for each connection."""

from __future__ import annotations

import json
import select
import socket
import sys
import threading
from contextlib import suppress
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from . import wire
from .failures import refuse
from .log import Log
from .replies import Fail, Reply, Say
from .requests import Request, read


class ModelServer(Log):
    """`with ModelServer() as models:`, and afterwards nothing of it is left, whatever still hung."""

    def __init__(self, port: int = 0) -> None:
        super().__init__()
        self._listener = _Listener(self, port)
        self._thread = threading.Thread(target=self._listener.serve_forever, args=(0.05,), daemon=True)
        self.port = self._listener.server_port
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.shutdown()
        self._thread.join()
        self._listener.server_close()


class _Listener(ThreadingHTTPServer):
    daemon_threads = False  # so that closing waits for them
    request_queue_size = 64

    def __init__(self, log: Log, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.log = log
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        with self._lock:
            self._connections.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._connections.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        # Each thread waits for what its client does next, also that of a request that hangs.
        with self._lock:
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        super().server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A CLI that is stopped leaves in the middle of an answer.
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Listener
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nothing on stderr; `/__log` tells more."""

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path == "/__log":
            self._send(200, [asdict(seen) for seen in self.server.log.seen()])
        elif path.endswith("/models"):
            self._send(200, {"object": "list", "data": [{"id": "scripted-model", "object": "model"}]})
        else:
            self._send(404, {"error": f"nothing is at {path}"})

    def do_POST(self) -> None:
        path = urlsplit(self.path).path
        text = self.rfile.read(int(self.headers["content-length"])).decode()
        if path == "/__force":
            self.server.log.force(text or None)
            self._send(200, {"forced": text or None})
        elif path.endswith(("/count_tokens", ":countTokens")):
            self._send(200, {"input_tokens": wire.INPUT_TOKENS, "totalTokens": wire.INPUT_TOKENS})
        elif request := read(path, json.loads(text)):
            headers = {name.lower(): value for name, value in self.headers.items()}
            with self.server.log.answering(request, self.path, headers, text) as (number, reply):
                self._reply(request, number, reply)
        else:
            self._send(404, {"error": f"nothing is at {path}"})

    def _reply(self, request: Request, number: int, reply: Reply) -> None:
        if isinstance(reply, Fail):
            self._send(*refuse(request, reply))
            return
        if isinstance(reply, Say) and reply.delay and self._left(within=reply.delay):
            return
        answer = wire.Answer(request.model, number, reply)
        if request.streamed or answer.breaks:
            self._stream(request.protocol, answer)
        else:
            self._send(200, wire.whole(request.protocol, answer))

    def _stream(self, protocol: str, answer: wire.Answer) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for event in wire.stream(protocol, answer):
            data = event.encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        if answer.breaks:
            if answer.breaks == "hang":
                self._left(within=None)
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _left(self, within: float | None) -> bool:
        """Whether the client went away in this time. It has said all it wanted, so there is but its end to read."""
        gone, _, _ = select.select([self.connection], [], [], within)
        self.close_connection |= bool(gone)
        return bool(gone)

    def _send(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        fixed = {"content-type": "application/json", "content-length": str(len(data))}
        for name, value in (fixed | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)
