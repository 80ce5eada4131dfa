"""Which TCP connections processes have: what an engine that says nothing may be waiting for. By Linux's /proc."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

MAX_FILES = 4096
"""Open files of a process that are looked at."""
_SOCKET = "socket:["
_ESTABLISHED, _SYN_SENT, _CLOSE_WAIT = "01", "02", "08"


@dataclass(frozen=True, slots=True)
class Connection:
    remote: str
    state: str
    unsent: bool = False
    """The other side has not taken all that was sent."""
    unread: bool = False
    """The process has not taken all that came."""

    def __str__(self) -> str:
        match (self.state, self.unsent, self.unread):
            case (state, _, _) if state == _SYN_SENT:
                return f"asked for a TCP connection to {self.remote}, and nobody answered"
            case (state, _, _) if state == _CLOSE_WAIT:
                return f"a TCP connection that {self.remote} had closed"
            case (_, True, _):
                return f"an open TCP connection to {self.remote}, which does not take what is sent"
            case (_, _, True):
                return f"an open TCP connection to {self.remote}, with bytes that it did not read"
            case _:
                return f"an open TCP connection to {self.remote}, and no bytes came"


class _Row(NamedTuple):
    local: str
    connection: Connection


def of(pids: Iterable[int]) -> list[Connection]:
    """Of these processes, each once; what they have among themselves is nobody's answer to wait for."""
    rows: dict[str, _Row] = {}
    for pid in pids:
        inodes = _inodes(pid)
        if inodes:
            rows |= {inode: row for inode, row in _table(pid) if inode in inodes}
    own = {row.local for row in rows.values()}
    found = {row.connection for row in rows.values() if row.connection.remote not in own}
    return sorted(found, key=lambda each: (each.state, each.remote))


def _inodes(pid: int) -> set[str]:
    """Gone, or closed to us: then it has none that we know of."""
    found = set()
    with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        for name in os.listdir(f"/proc/{pid}/fd")[:MAX_FILES]:  # noqa: PTH208 (thousands of Paths for nothing)
            with suppress(FileNotFoundError, ProcessLookupError):
                target = os.readlink(f"/proc/{pid}/fd/{name}")  # noqa: PTH115
                if target.startswith(_SOCKET):
                    found.add(target[len(_SOCKET) : -1])
    return found


def _table(pid: int) -> Iterator[tuple[str, _Row]]:
    """Of the process's own network, which need not be ours."""
    for name in ("tcp", "tcp6"):
        with suppress(OSError), open(f"/proc/{pid}/net/{name}", encoding="ascii") as file:  # noqa: PTH123
            next(file, None)
            for line in file:
                local, remote, state, queues, *rest = line.split()[1:]
                if state in (_ESTABLISHED, _SYN_SENT, _CLOSE_WAIT):
                    unsent, _, unread = queues.partition(":")
                    shown = Connection(_address(remote), state, bool(int(unsent, 16)), bool(int(unread, 16)))
                    yield rest[4], _Row(_address(local), shown)


def _address(text: str) -> str:
    """Written as the words of memory on this machine: each of four bytes, the last first."""
    digits, _, port = text.partition(":")
    words = [bytes.fromhex(digits[at : at + 8])[::-1] for at in range(0, len(digits), 8)]
    address = ipaddress.ip_address(b"".join(words))
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    host = str(mapped or address)
    return f"[{host}]:{int(port, 16)}" if ":" in host else f"{host}:{int(port, 16)}"
