"""Serves index.html and passes its calls on to the service, with the token: python examples/html/serve.py

The token stays in this process. In exchange whoever reaches this port can use the service without one, so it listens on
this machine only, and refuses pages of other sites as the service itself does.
"""

import json
import os
import urllib.request
from collections.abc import Iterable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import HTTPError

PAGE = Path(__file__).with_name("index.html")
SERVICE = os.environ.get("TURNKEEPER_URL", "http://127.0.0.1:9813")
TOKEN = os.environ.get("TURNKEEPER_TOKEN") or Path(".turnkeeper/token").read_text().strip()
PORT = int(os.environ.get("PORT", "8080"))


class Proxy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        here = f"127.0.0.1:{self.server.server_address[1]}"
        if self.headers["Host"] != here or self.headers.get("Origin", f"http://{here}") != f"http://{here}":
            self.send_error(403, f"only for the page of http://{here}")
        elif self.path.startswith("/v1/"):
            self.pass_on()
        else:
            self.answer(200, "text/html; charset=utf-8", [PAGE.read_bytes()])

    def do_POST(self) -> None:
        self.do_GET()

    def pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))) or None
        kept = {
            name: self.headers[name]
            for name in ("Content-Type", "Last-Event-ID", "Prefer")
            if name in self.headers
        }
        request = urllib.request.Request(
            SERVICE + self.path, body, {**kept, "Authorization": f"Bearer {TOKEN}"}, method=self.command
        )
        try:
            answer = urllib.request.urlopen(request)
        except HTTPError as refusal:
            answer = refusal  # a problem document, for the page to show
        except OSError as error:
            told = {"code": "SERVICE_UNREACHABLE", "detail": f"{SERVICE} does not answer: {error}"}
            self.answer(502, "application/problem+json", [json.dumps(told).encode()])
            return
        with answer:
            # By what has come, not by full buffers: an event must not wait for the next one.
            self.answer(answer.status, answer.headers["Content-Type"], iter(answer.read1, b""))

    def answer(self, status: int, kind: str, pieces: Iterable[bytes]) -> None:
        with suppress(ConnectionError):  # who closes the page does not say goodbye
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.end_headers()
            for piece in pieces:
                self.wfile.write(piece)


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", PORT), Proxy) as server:
        print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
        server.serve_forever()
