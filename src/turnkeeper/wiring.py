"""Chooses the real parts and puts them together: the one place that knows every driver and engine."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import gc
import logging
import os
import secrets
import signal
import socket
import ssl
import stat
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_config_path
from starlette.types import ASGIApp
from uvicorn.config import Config
from uvicorn.server import Server

from turnkeeper import __version__, beacon, threads
from turnkeeper.beacon import TOKEN, Beacon
from turnkeeper.core.errors import SettingsInvalid
from turnkeeper.core.keys import id_in
from turnkeeper.core.run import SandboxKind
from turnkeeper.engines import names, probe
from turnkeeper.engines.base import PASSED_ON, Engine, EngineConfig, password_in
from turnkeeper.engines.mounts import Places
from turnkeeper.engines.registry import engines
from turnkeeper.engines.sandbox import Limits, Sandbox
from turnkeeper.failpoints import Deed, around
from turnkeeper.runtime.alarm import WatchedLoop, alarm_of
from turnkeeper.runtime.clock import Clock, utc_now
from turnkeeper.runtime.disk import Disk
from turnkeeper.runtime.dispatch import Capacity
from turnkeeper.runtime.house import House, Parts
from turnkeeper.runtime.intake import Policy
from turnkeeper.runtime.secrecy import Secrecy
from turnkeeper.runtime.secrets import FILE as SECRETS
from turnkeeper.runtime.secrets import Secrets
from turnkeeper.runtime.stage import Stage
from turnkeeper.settings import EngineSettings, SandboxSettings, Settings, default_data_dir
from turnkeeper.skills.durable import write_whole
from turnkeeper.skills.install import Library
from turnkeeper.skills.package import Shelf
from turnkeeper.store.base import Reads
from turnkeeper.store.reads import DATABASE as DATABASE
from turnkeeper.store.reads import SqliteReads
from turnkeeper.store.sqlite import SqliteStore
from turnkeeper.web.address import MAX_HEAD
from turnkeeper.web.app import make_app
from turnkeeper.web.discreet import Discreet
from turnkeeper.web.door import Door
from turnkeeper.web.entrance import LOOPBACK, Entrance
from turnkeeper.web.guard import Guard
from turnkeeper.web.patience import PatientProtocol
from turnkeeper.web.rates import Rates
from turnkeeper.web.traffic import Traffic

if TYPE_CHECKING:
    # What only commands need, they load: a service that runs for months need not carry it.
    from turnkeeper.engines.managed import Installed as Installed
    from turnkeeper.engines.managed import Report
    from turnkeeper.runtime.doctor import Diagnosis as Diagnosis

log = logging.getLogger(__name__)

BACKLOG = 2048
"""Connections that may wait in the kernel to be accepted."""
ACCEPTS = 1
"""How many are accepted at once. asyncio takes this from the backlog, and with no descriptor left it tries, fails,
logs and sets a timer that many times, each second: with thousands of them nobody would be answered meanwhile."""
THREADS = min(32, (os.cpu_count() or 1) + 4)
"""For whatever would make the event loop wait; as many as Python would use."""
GRACE_SEC = 5
"""How long open connections may take to finish at a stop."""
RESTING_SEC = 75
"""How long a connection may rest between two requests. Longer than clients keep theirs (httpx 5 seconds, nginx 60), so
that they close it: one that we close just when they ask again is a call that fails for no reason."""
KEEPALIVE_SEC, DEAD_PEER_SEC = 60, 120
"""Of a connection: how long it may be silent before it is tried, and how long nobody may take what was sent."""
M_ARENA_MAX = -8
"""As glibc's malloc.h has it."""


@dataclass(frozen=True, slots=True)
class Service:
    """A service that answers."""

    url: str
    token: str
    house: House
    door: Door
    traffic: Traffic
    public_url: str | None = None

    async def is_idle(self) -> bool:
        """Nothing is to do, and nobody is on the way with an address that signs in."""
        return not self.door.expects_somebody and await self.house.is_idle()

    def sign_in(self) -> str:
        """An address that signs one browser in; the browser keeps what is behind `#` to itself."""
        return f"{self.public_url or self.url}/#code={self.door.new_code(is_asked_for=False).code}"


@dataclass(frozen=True, slots=True)
class Archive:
    store: Reads
    stage: Stage


@contextlib.asynccontextmanager
async def running(settings: Settings, *, clock: Clock = utc_now) -> AsyncIterator[Service]:
    """A whole service on its own socket; leaving the context stops it gracefully."""
    entrance = _entrance(settings)
    entrance.require_cover()
    tls = await asyncio.to_thread(entrance.context)
    prepare_data_dir(settings.data_dir)
    # The lock on the data directory comes first: who starts twice is told of the other server, not of its port.
    house = await open_house(settings, clock)
    beacon.put_out(settings.data_dir)
    async with contextlib.AsyncExitStack() as undo:
        undo.push_async_callback(house.stop)
        undo.enter_context(house.secrecy.over_logs())
        token = _not_a_key(settings.token or own_token(settings.data_dir))
        house.secrecy.learn([token])
        listener = undo.enter_context(contextlib.closing(_listen(settings)))
        await house.start()
        await house.keys.keep_token(token)
        door = Door(token, house.store.data_id, clock, house.keys.ring)
        guard = _guard(settings, house, door)
        server = _server_config(Discreet(guard, house.secrecy), tls)
        await undo.enter_async_context(_serving(server, listener))
        undo.callback(house.begin_stop)
        if house.alarm is not None:
            house.alarm.start()
        url = _url(listener, entrance.scheme)
        cert = await asyncio.to_thread(entrance.certificate)
        undo.enter_context(beacon.lit(settings.data_dir, _beacon(url, house, cert)))
        if house.sandbox.kind is SandboxKind.OFF:
            log.warning("AGENTS HAVE NO SANDBOX, and can do all that this user can: %s", house.sandbox.reason)
        yield Service(url, token, house, door, guard.traffic, settings.public_url)


@contextlib.asynccontextmanager
async def _serving(config: Config, listener: socket.socket) -> AsyncIterator[None]:
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    up = asyncio.create_task(server.is_up.wait())
    try:
        await asyncio.wait([serving, up], return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
        yield
    finally:
        up.cancel()
        server.stop.set()
        await asyncio.wait([serving])


async def serve(
    settings: Settings, announce: Callable[[Service], None], *, idle_stop_sec: float | None = None
) -> None:
    """Until SIGINT or SIGTERM, or until nobody has asked and nothing was to do for `idle_stop_sec`."""
    os.umask(0o077)  # whatever we write is nobody else's to read
    _share_the_heap()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    if isinstance(loop, WatchedLoop):
        loop.hands = threads.Hands(THREADS, "turnkeeper-work")
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with running(settings) as service:
        gc.freeze()  # what is there by now stays; to look for garbage in it takes a tenth of a second, while all wait
        announce(service)
        await asyncio.to_thread(_load_the_rest)
        async with asyncio.TaskGroup() as watch:
            waits = idle_stop_sec and watch.create_task(_stop_when_idle(service, idle_stop_sec, stop))
            await stop.wait()
            if waits:
                waits.cancel()
        log.info("stopping: running turns are cut off and go on at the next start")


def _share_the_heap() -> None:
    """glibc gives each thread a heap of its own, lest they wait for each other. Ours take turns anyway."""
    with contextlib.suppress(AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)


def _load_the_rest() -> None:
    """What a start can do without, and a service cannot: later there may be no descriptor left to load it by."""
    import jsonschema_rs  # noqa: F401

    import turnkeeper.web.metrics  # noqa: F401


async def _stop_when_idle(service: Service, seconds: float, stop: asyncio.Event) -> None:
    await service.traffic.ceased(seconds, service.is_idle)
    log.info("nothing was to do for %g seconds", seconds)
    stop.set()


async def open_house(settings: Settings, clock: Clock) -> House:
    assert settings.sticky_slots is not None
    known = known_engines(settings)
    if settings.default_engine is not None and settings.default_engine not in known:
        raise SettingsInvalid(
            f"there is no engine {settings.default_engine!r}; there are: {', '.join(known)}"
        )
    for folder in settings.skills_dir:
        if not folder.is_dir():
            log.warning("there is no folder of skills at %s; they are found as soon as there is one", folder)
    store = await SqliteStore.open(settings.data_dir)
    try:
        sandbox = await asyncio.to_thread(_own_sandbox, settings)
    except BaseException:
        await store.close()
        raise
    shelf = Shelf(settings.skill_folders)
    library = Library(settings.managed_skills, shelf)
    library.repair()
    limits = {name: engine.limit for name, engine in settings.engines.items() if engine.limit is not None}
    secrecy = Secrecy()
    try:
        kept = _secrets(settings, known, secrecy, clock)
    except SettingsInvalid:
        await store.close()
        raise
    parts = Parts(
        secrecy=secrecy,
        secrets=kept,
        store=store,
        engines=known,
        shelf=shelf,
        library=library,
        runs_dir=settings.data_dir / "runs",
        disk=Disk(settings.data_dir, settings.min_free_mb),
        capacity=Capacity(slots=settings.slots, sticky_slots=settings.sticky_slots, engine_limits=limits),
        policy=Policy(
            max_queued=settings.max_queued,
            upload_timeout_sec=settings.upload_timeout_sec,
            default_engine=settings.default_engine,
            session_timeout_sec=settings.session_timeout_sec,
            timeouts=settings.timeouts.core(),
        ),
        clock=clock,
        alarm=alarm_of(asyncio.get_running_loop()),
        retention=settings.retention.limits(),
        sandbox=sandbox,
    )
    return House(parts)


def _own_sandbox(settings: Settings) -> Sandbox:
    """Of the service that has the data directory. Blocking."""
    probe.tidy(settings.data_dir)
    for path in settings.sandbox.read:
        if not path.exists():
            log.warning("sandbox.read names %s, which does not exist", path)
    return known_sandbox(settings, settings.data_dir)


def known_sandbox(settings: Settings, data_dir: Path) -> Sandbox:
    """As the settings want it, and as it works on this machine. Blocking: it is tried, in that folder."""
    wanted = settings.sandbox
    config = os.environ.get("TURNKEEPER_CONFIG")
    logins = (engine.login_home for engine in settings.engines.values())
    named = (Path(config).absolute() if config else None, settings.tls_key, settings.tls_cert, *logins)
    places = Places(
        data_dir=data_dir,
        home=Path(os.path.expanduser("~")),  # noqa: PTH111 (never raises)
        secret=(user_config_path("turnkeeper"), *filter(None, named)),
        read=wanted.read,
    )
    return probe.settle(wanted.mode, places, _limits(wanted))


def _limits(wanted: SandboxSettings) -> Limits:
    mb = 1024 * 1024
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Limits(
        processes=wanted.max_processes,
        memory=wanted.max_memory_mb * mb if wanted.max_memory_mb else whole * 3 // 4,
        open_files=wanted.max_open_files,
        file=wanted.max_file_mb * mb,
        disk=wanted.max_disk_mb * mb,
    )


def _secrets(settings: Settings, known: Mapping[str, Engine], secrecy: Secrecy, clock: Clock) -> Secrets:
    """What the service knows from its start on: its engines' keys, and the secrets that it keeps."""
    for engine in known.values():
        secrecy.learn(getattr(engine, "secrets", ()))
    secrecy.learn(filter(None, (password_in(os.environ.get(name, "")) for name in PASSED_ON)))
    reserved = {name for engine in known.values() for name in getattr(engine, "own_names", ())}
    return Secrets(settings.data_dir / SECRETS, secrecy, clock, reserved=reserved)


@contextlib.asynccontextmanager
async def archive(settings: Settings) -> AsyncIterator[Archive]:
    """The runs as they are stored, to look at: beside a running service, or without one."""
    reads = await asyncio.to_thread(SqliteReads.of_stopped_or_running, settings.data_dir)
    try:
        shelf = Shelf(settings.skill_folders)
        yield Archive(reads, Stage(reads, shelf, known_engines(settings), settings.data_dir / "runs"))
    finally:
        await reads.close()


def known_engines(settings: Settings) -> dict[str, Engine]:
    """As the settings configure them; one that is not told of there may still be a managed install."""
    chosen = {**dict.fromkeys(names(), EngineSettings()), **settings.engines}
    configs = {
        name: EngineConfig(
            command=each.command,
            resident_command=each.resident_command,
            asks=each.asks,
            modes=each.modes,
            model=each.model,
            env=each.env,
            config=each.config,
            login_home=each.login_home,
            managed=settings.engine_folder,
            refuses_root=os.geteuid() == 0 and not settings.allow_root,
            data_dir=None if settings.data_dir == default_data_dir() else settings.data_dir,
        )
        for name, each in chosen.items()
    }
    return engines(configs)


def programs_of(settings: Settings, name: str) -> list[str]:
    """What is installed for an engine: itself, and what makes a resident agent of it."""
    from turnkeeper.engines import managed

    return list(managed.packages_of(known_engines(settings)[name]))


async def install_program(settings: Settings, name: str, program: str, report: Report) -> Installed:
    """By npm, into the folder of engines; `report` is told of each step."""
    from turnkeeper.engines import managed

    package = managed.packages_of(known_engines(settings)[name])[program]
    if settings.engines_dir is None:
        prepare_data_dir(settings.data_dir)
    return await managed.install(program, package, settings.engine_folder, report)


async def examine_engine(
    settings: Settings,
    name: str,
    report: Report,
    *,
    with_turn: bool,
    as_resident: bool = False,
    asking: bool = False,
) -> Diagnosis:
    """In a folder like a run's, which is gone afterwards."""
    from turnkeeper.runtime.doctor import Visit, examine
    from turnkeeper.skills.workspace import RunFolder

    with tempfile.TemporaryDirectory(prefix="turnkeeper-", ignore_cleanup_errors=True) as root:
        visit = Visit(
            folder=RunFolder(Path(root) / "run"),
            note=settings.data_dir / "lent" / f"{Path(root).name}.json",
            timeouts=settings.timeouts.core(),
            with_turn=with_turn,
            as_resident=as_resident,
            asking=asking,
            sandbox=await asyncio.to_thread(known_sandbox, settings, Path(root)),
            report=report,
        )
        return await examine(known_engines(settings)[name], visit)


def prepare_data_dir(data_dir: Path) -> None:
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsInvalid(f"the data directory {data_dir} cannot be made: {error.strerror}") from error
    if not os.access(data_dir, os.W_OK | os.X_OK):
        raise SettingsInvalid(f"the data directory {data_dir} is not writable")


def own_token(data_dir: Path) -> str:
    """Made at the first start and kept in a file that only the owner can read. For who has the lock."""
    path = data_dir / TOKEN
    try:
        token = _kept_token(path)
    except OSError as error:
        raise SettingsInvalid(f"{path} cannot be used: {error.strerror}") from error
    if len(token) < 16 or not token.isascii():
        raise SettingsInvalid(f"{path} holds no usable token; delete it and start again to get a new one")
    return token


def _not_a_key(token: str) -> str:
    """A client's key in TURNKEEPER_TOKEN would be good for everything in a service that is started beside it."""
    if id_in(token) is not None:
        raise SettingsInvalid("TURNKEEPER_TOKEN holds a key, and a key cannot be the token of a service")
    return token


def _kept_token(path: Path) -> str:
    if not os.path.lexists(path):
        # Whole or not at all: a start that was cut off must not leave a file that no later one can use.
        with around(Deed.KEEP_TOKEN):
            write_whole(path, f"{secrets.token_urlsafe(32)}\n".encode())
    if not path.is_file():
        return ""
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise SettingsInvalid(f"{path} can be read by others; run: chmod 600 {path}")
    return path.read_text(encoding="utf-8", errors="replace").strip()


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # Named as TCP, else asyncio leaves Nagle's algorithm on, and every answer takes 40 ms.
    listener = _Listener(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Each connection has these from here. A peer that vanished, or takes nothing any more, is let go of by the kernel:
    # a heartbeat that nobody acknowledges is what tells.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_SEC)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_PEER_SEC * 1000)
    try:
        listener.bind((settings.host, settings.port))
        listener.listen()
    except (OSError, TypeError) as error:
        listener.close()
        raise SettingsInvalid(f"cannot listen on {settings.host}:{settings.port}: {_why(error)}") from error
    return listener


def _why(error: OSError | TypeError) -> str:
    if isinstance(error, TypeError):  # so a socket calls a name that cannot be one
        return "that is not the name of a host; choose another --host"
    is_host = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
    return f"{error.strerror}; choose another {'--host' if is_host else '--port'}"


def _beacon(url: str, house: House, cert: str | None) -> Beacon:
    return Beacon(url=url, pid=os.getpid(), version=__version__, started_at=house.since, cert=cert)


def _url(listener: socket.socket, scheme: str) -> str:
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _entrance(settings: Settings) -> Entrance:
    return Entrance(
        host=settings.host,
        tls_cert=settings.tls_cert,
        tls_key=settings.tls_key,
        behind_proxy=settings.behind_proxy,
        public_url=settings.public_url,
    )


def _guard(settings: Settings, house: House, door: Door) -> Guard:
    entrance = _entrance(settings)
    public = {entrance.public_host} if entrance.public_host else set()
    return Guard(
        make_app(house, door, public_url=settings.public_url),
        door=door,
        hosts={*LOOPBACK, settings.host, *settings.allowed_hosts, *public},
        max_upload=settings.max_upload_mb * 1024 * 1024,
        entrance=entrance,
        rates=Rates(settings.rate_limit),
    )


def _server_config(app: ASGIApp, tls: ssl.SSLContext | None) -> Config:
    return Config(
        app,
        http=PatientProtocol,
        h11_max_incomplete_event_size=MAX_HEAD,
        ws="none",
        proxy_headers=False,  # the guard reads them itself, and only where a proxy is known to write them
        ssl_context_factory=None if tls is None else lambda _config, _default: tls,
        loop="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=RESTING_SEC,
        timeout_graceful_shutdown=GRACE_SEC,
        backlog=ACCEPTS,
    )


class _Listener(socket.socket):
    def listen(self, backlog: int = BACKLOG, /) -> None:
        """Whatever asyncio wants: what it asks for is how many it accepts at once."""
        super().listen(max(backlog, BACKLOG))


class _Server(Server):
    """uvicorn without its own signals (the house must stop before the process does) and without its ten ticks
    a second, which only serve a Date header that the guard sends instead."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.is_up = asyncio.Event()
        self.stop = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_up.set()

    async def main_loop(self) -> None:
        await self.stop.wait()
