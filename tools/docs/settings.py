"""Every setting: its variable, its default, what it is for."""

from collections.abc import Iterable

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tools.docs.tables import table
from turnkeeper.settings import EngineSettings, Settings

SETTINGS: dict[str, str] = {
    "data_dir": "Where the database, the token and the folders of all runs are kept.",
    "skills_dir": "More folders with skills, separated by `:` (a list in the file).",
    "host": "Address to listen on.",
    "port": "Port to listen on; 0 picks a free one.",
    "allowed_hosts": "More names that requests may carry in `Host`, separated by commas (a list in the file).",
    "tls_cert": "The service's certificate for TLS (PEM, followed by those that signed it); without TLS, none.",
    "tls_key": "Its private key, without a password, if it is not in the same file.",
    "behind_proxy": "A proxy with TLS stands in front: its `X-Forwarded-For` and `X-Forwarded-Proto` are believed.",
    "public_url": "How people reach it, `https://agents.example.org` say; links and sign-in addresses begin with it.",
    "rate_limit": "Requests a second for each key, ten seconds of them at once; beyond that 429; 0: no limit.",
    "token": "The bearer token, at least 16 characters, instead of the generated one.",
    "slots": "How many turns, and waiting resident processes, may be alive at once.",
    "sticky_slots": "How many of the slots runs of profile `sticky_process` may hold.",
    "max_queued": "With so many runs in line, a new job is refused with 429.",
    "default_engine": "The engine of a job that names none.",
    "engines_dir": "Where `turnkeeper engines install` puts engines.",
    "session_timeout_sec": "How long a wait with a deadline lasts, unless the job says otherwise.",
    "upload_timeout_sec": "How long a job that needs files waits for their upload.",
    "max_upload_mb": "The largest upload, in MiB: files of a job, or the archive of a skill.",
    "min_free_mb": "With less free on the data directory's disk, in MiB, new work is refused with 507; 0: never.",
    "timeouts__first_byte_sec": "A turn fails if the engine at first neither prints nor works for so long.",
    "timeouts__idle_sec": "A turn fails if the engine later neither prints nor works for so long.",
    "timeouts__turn_sec": "A turn fails if it takes longer.",
    "timeouts__result_grace_sec": "How long an engine may take to exit after its result.",
    "timeouts__step_sec": "Between INT, TERM and KILL when a process is ended.",
    "retention__runs_days": "Runs that ended so many days ago are removed.",
    "retention__homes_days": "Of runs that ended so many days ago the engine's private home is removed.",
    "retention__logs_days": "Of runs that ended so many days ago the raw logs are removed.",
    "retention__max_gb": "Ended runs are removed, the oldest first, until the folders of all runs fit into this.",
    "sandbox__mode": "`auto`: a sandbox if there is one; `required`: no start without; `off`: none.",
    "sandbox__read": "More that every agent may read in it, separated by `:` (a list in the file).",
    "sandbox__max_processes": "Processes and threads of one run at a time.",
    "sandbox__max_memory_mb": "Memory of all processes of a run, in MiB.",
    "sandbox__max_open_files": "Open files of each process.",
    "sandbox__max_file_mb": "The largest file that an agent can write, in MiB.",
    "sandbox__max_disk_mb": "Workspace and home of a run, in MiB.",
    "allow_root": "Whether a service of root starts real engines. `demo` is always started.",
    "engines__<name>__command": "How it is started, `node /opt/cli.js` say; else a managed install, else PATH.",
    "engines__<name>__resident_command": "`codex`, `claude`: how the program is started that makes it a resident.",
    "engines__<name>__asks": "For an agent of your own: whether it asks before it acts.",
    "engines__<name>__modes": "For an agent of your own: the mode of its sessions, by `permissions`.",
    "engines__<name>__limit": "How many turns of this engine may run at once; a resident that waits counts too.",
    "engines__<name>__model": "The model of jobs that name none.",
    "engines__<name>__env": "More variables for it: `NAME` as the service has it, or `NAME=value`.",
    "engines__<name>__config": "Laid over the settings file that is written into the home of each run.",
    "engines__<name>__login_home": "Where the login files of this engine are.",
}
DEFAULTS = {
    "data_dir": "`~/.local/share/turnkeeper`",
    "skills_dir": "none beside `skills` in the data directory",
    "engines_dir": "`engines` in the data directory",
    "engines__<name>__modes": "none",
    "engines__<name>__config": "none",
    "engines__<name>__login_home": "the home of the service's user",
    "behind_proxy": "`false`",
    "token": "generated, kept in `token` in the data directory",
    "sandbox__max_memory_mb": "three quarters of the machine's",
    "slots": "CPU count, at least 4",
    "sticky_slots": "`slots` - 1, at least 1",
}
"""Where the default is computed, or None stands for more than nothing."""


def settings() -> str:
    rows = [(name, _default(name, field)) for name, field in _fields(Settings)]
    return table(
        ("variable", "default", "meaning"),
        ((f"`TURNKEEPER_{name.upper()}`", default, SETTINGS[name]) for name, default in rows),
    )


def _fields(model: type[BaseModel], prefix: str = "") -> Iterable[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _fields(kind, f"{prefix}{name}__")
        elif name == "engines":
            yield from _fields(EngineSettings, "engines__<name>__")
        else:
            yield f"{prefix}{name}", field


def _default(name: str, field: FieldInfo) -> str:
    if name in DEFAULTS:
        return DEFAULTS[name]
    shown = f"{field.default:g}" if isinstance(field.default, float) else field.default
    return f"`{shown}`" if field.default not in (None, ()) else "none"
