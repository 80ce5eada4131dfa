"""Certificates for tests, made by the openssl of this machine."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

OPENSSL = shutil.which("openssl")
needs_openssl = pytest.mark.skipif(OPENSSL is None, reason="no openssl on PATH: no certificate can be made")


@dataclass(frozen=True)
class Files:
    cert: Path
    key: Path

    @property
    def settings(self) -> dict[str, Path]:
        return {"tls_cert": self.cert, "tls_key": self.key}


def made(folder: Path, name: str = "service", *, alias: str = "turnkeeper.example") -> Files:
    """Signed by itself, for a name that is not the one it is reached by."""
    files = Files(folder / f"{name}.pem", folder / f"{name}.key")
    _openssl(
        *(
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ),
        *("-subj", f"/CN={alias}", "-addext", f"subjectAltName=DNS:{alias}"),
        *("-keyout", str(files.key), "-out", str(files.cert)),
    )
    return files


def signed(folder: Path) -> Files:
    """By an authority that nobody knows; its own certificate stands below, as servers send it."""
    authority, files = (
        made(folder, "authority", alias="authority.example"),
        Files(folder / "s.pem", folder / "s.key"),
    )
    _openssl(
        *(
            "req",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-subj",
            "/CN=signed.example",
        ),
        *("-keyout", str(files.key), "-out", str(folder / "s.csr")),
    )
    _openssl(
        *("x509", "-req", "-in", str(folder / "s.csr"), "-days", "2", "-out", str(files.cert)),
        *("-CA", str(authority.cert), "-CAkey", str(authority.key), "-CAcreateserial"),
    )
    files.cert.write_text(files.cert.read_text() + authority.cert.read_text())
    return files


def with_password(files: Files) -> Path:
    locked = files.key.with_suffix(".locked")
    _openssl("ec", "-in", str(files.key), "-aes128", "-passout", "pass:secret", "-out", str(locked))
    return locked


def _openssl(*words: str) -> None:
    assert OPENSSL is not None
    subprocess.run([OPENSSL, *words], check=True, capture_output=True, stdin=subprocess.DEVNULL)
