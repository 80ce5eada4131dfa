"""How the service is reached from beyond this machine: by TLS, behind a proxy that has it, or not at all."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Scope

from turnkeeper.core.errors import SettingsInvalid

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrance:
    host: str
    tls_cert: Path | None = None
    tls_key: Path | None = None
    behind_proxy: bool = False
    public_url: str | None = None

    @property
    def scheme(self) -> str:
        return "https" if self.tls_cert is not None else "http"

    @property
    def public_host(self) -> str | None:
        return urlsplit(self.public_url).hostname if self.public_url else None

    def require_cover(self) -> None:
        """Keys and answers do not cross a network in the clear, unless somebody says that they do not."""
        if self.tls_cert is None and not self.behind_proxy and not is_loopback(self.host):
            raise SettingsInvalid(
                f"{self.host} can be reached from other machines: give a certificate (--tls-cert FILE --tls-key "
                "FILE), or say that a proxy with one stands in front (--behind-proxy)"
            )

    def context(self) -> ssl.SSLContext | None:
        """Blocking. None: there is no TLS here. What is wrong with the files is said in one line."""
        if self.tls_cert is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        for path in filter(None, (self.tls_cert, self.tls_key)):
            _require_readable(path)
        try:
            context.load_cert_chain(self.tls_cert, self.tls_key, password=self._no_password)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise SettingsInvalid(f"{self._files} cannot be used for TLS: {_why(error)}") from error
        return context

    def _no_password(self) -> str:
        """Without this, OpenSSL would ask whoever sits at the terminal."""
        raise SettingsInvalid(
            f"{self._files} cannot be used for TLS: the key has a password; give one without"
        )

    @property
    def _files(self) -> str:
        return " and ".join(str(path) for path in (self.tls_cert, self.tls_key) if path is not None)

    def certificate(self) -> str | None:
        """Blocking. The service's own, without those of who signed it: by this one it is known on this machine."""
        if self.tls_cert is None:
            return None
        text = self.tls_cert.read_text(encoding="ascii", errors="replace")
        inside = text.partition(_BEGIN)[2].partition(_END)[0]
        return f"{_BEGIN}{inside}{_END}\n"

    def seen_from(self, scope: Scope, headers: Headers) -> Scope:
        """The request as it reached the proxy. The last entry is the proxy's own; whatever stands before it may have
        been written by the client."""
        if not self.behind_proxy:
            return scope
        peer, scheme = (_last(headers.getlist(f"x-forwarded-{what}")) for what in ("for", "proto"))
        changed = dict(scope)
        if peer:
            changed["client"] = (peer, 0)
        if scheme in ("http", "https"):
            changed["scheme"] = scheme
        return changed

    def is_own_page(self, origin: str, scope: Scope, host: str) -> bool:
        """Of a page of this service, by the name that it was asked by, or by its public one."""
        try:
            told = urlsplit(origin.lower())
        except ValueError:
            return False
        if self.public_url is not None and origin.lower() == origin_of(self.public_url):
            return True
        # A page that came in the clear may be anybody's who sits on the way.
        return told.netloc == host.lower() and (scope["scheme"] != "https" or told.scheme == "https")

    def is_known_by_name(self, scope: Scope, host: str) -> bool:
        """By TLS and under a name of its own: `localhost` is shared with every other service of this machine, and a
        browser that is told to use TLS for it does so for all of them."""
        return scope["scheme"] == "https" and not is_loopback(host)


def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        # The kernel takes short forms as well: 127.1 is 127.0.0.1.
        return ip_address(host if ":" in host else socket.inet_aton(host)).is_loopback
    except (ValueError, OSError):
        return False


def origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


def _last(lines: Sequence[str]) -> str:
    """Some proxies add a line of their own, others an entry to the one that is there."""
    return ",".join(lines).rpartition(",")[2].strip().lower()


def _require_readable(path: Path) -> None:
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise SettingsInvalid(f"{path} cannot be read for TLS: {error.strerror}") from error


def _why(error: Exception) -> str:
    reason = str(getattr(error, "reason", None) or "")
    return _WORDS.get(reason, reason.replace("_", " ").lower() or _NO_PEM)


_NO_PEM = "there is no certificate, or no key, in PEM form"
_WORDS = {
    "KEY_VALUES_MISMATCH": "the key is not that of the certificate",
    "NO_START_LINE": _NO_PEM,
    "PEM_LIB": _NO_PEM,
    "EE_KEY_TOO_SMALL": "the key is too short to be safe",
}
