"""How often somebody may ask: a bucket of tokens for each, which fills up again by itself. In memory, and bounded."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

MOST_BUCKETS = 10_000
"""At once; beyond that the one is forgotten that was asked for the longest time ago. It is full by then, or nearly."""
BURST_SEC = 10
"""Of a key's requests a second: what it may ask at once after a pause."""


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


class Buckets:
    """Of one size for everybody. `now` is passed: any clock that only goes forward."""

    def __init__(self, rate: float, burst: float, *, most: int = MOST_BUCKETS) -> None:
        self._rate = rate
        self._burst = burst
        self._most = most
        self._kept: OrderedDict[str, _Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def take(self, whose: str, now: float) -> float:
        """0 if there was one left, which is taken; else the seconds until there will be."""
        bucket = self._kept.get(whose)
        if bucket is None:
            bucket = self._kept[whose] = _Bucket(self._burst, now)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        else:
            bucket.left = min(self._burst, bucket.left + max(0.0, now - bucket.at) * self._rate)
            bucket.at = now
            self._kept.move_to_end(whose)
        if bucket.left < 1:
            return (1 - bucket.left) / self._rate
        bucket.left -= 1
        return 0.0


class Rates:
    """Of those who are known, by their key; of strangers, who may be guessing one, by where they come from."""

    STRANGERS, STRANGERS_BURST = 20.0, 100.0

    def __init__(self, rate: float) -> None:
        """`rate`: requests a second for each key; 0: as many as they like."""
        self._callers = Buckets(rate, max(1.0, rate * BURST_SEC)) if rate else None
        self._strangers = Buckets(self.STRANGERS, self.STRANGERS_BURST)
        self._sign_ins = Buckets(self.STRANGERS, self.STRANGERS_BURST)

    def caller(self, bucket: str, now: float) -> float:
        return 0.0 if self._callers is None else self._callers.take(bucket, now)

    def stranger(self, peer: str, now: float) -> float:
        return self._strangers.take(_home(peer), now)

    def sign_in(self, peer: str, now: float) -> float:
        """Apart from other guesses: whoever makes many of those must not keep others of that address from coming in."""
        return self._sign_ins.take(_home(peer), now)


def retry_after(seconds: float) -> str:
    """Whole seconds, as the header wants them: one that asks again then is not too early."""
    return str(max(1, math.ceil(seconds)))


def _home(peer: str) -> str:
    """Of an IPv6 address the network: whoever has one has all of it, and could come from another each time. Some
    proxies write the port behind the address."""
    host, colon, port = peer.rpartition(":")
    is_with_port = colon and port.isdigit() and (host.count(".") == 3 or host.endswith("]"))
    try:
        address = ip_address((host.strip("[]") if is_with_port else peer.strip("[]")).partition("%")[0])
    except ValueError:
        return peer
    if isinstance(address, IPv6Address):
        return str(address.ipv4_mapped or int(address) >> 64)
    return str(address)
