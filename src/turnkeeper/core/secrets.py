"""What a named secret may be called and may hold: it becomes a variable of an engine's process."""

from __future__ import annotations

import re

NAME = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
SHORTEST = 8
"""Characters: a shorter value would be found in ordinary words, and could not be hidden."""
LARGEST = 64 * 1024
"""Bytes: all of a process's variables have to fit into what the kernel takes."""
MOST = 1000

_OURS = (
    *(
        "PATH",
        "HOME",
        "TMPDIR",
        "TERM",
        "NO_COLOR",
        "SHELL",
        "USER",
        "LOGNAME",
        "PWD",
        "OLDPWD",
        "LANG",
        "TZ",
    ),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "DEBIAN_FRONTEND"),
)
_OF_PROGRAMS = (
    *(
        "ENV",
        "BASH_ENV",
        "BASHOPTS",
        "SHELLOPTS",
        "IFS",
        "CDPATH",
        "PROMPT_COMMAND",
        "PS4",
        "EDITOR",
        "VISUAL",
        "PAGER",
    ),
    *(
        "NODE_OPTIONS",
        "NODE_PATH",
        "NODE_EXTRA_CA_CERTS",
        "NODE_TLS_REJECT_UNAUTHORIZED",
        "NODE_REPL_EXTERNAL_MODULE",
    ),
    *(
        "ELECTRON_RUN_AS_NODE",
        "JAVA_TOOL_OPTIONS",
        "JDK_JAVA_OPTIONS",
        "CLASSPATH",
        "BROWSER",
        "GCONV_PATH",
        "LOCPATH",
    ),
    *("GIT_ASKPASS", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_EXEC_PATH", "GIT_PROXY_COMMAND", "GIT_EXTERNAL_DIFF"),
    *(
        "GIT_EDITOR",
        "GIT_PAGER",
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_TEMPLATE_DIR",
        "GIT_TERMINAL_PROMPT",
        "SSH_ASKPASS",
    ),
)
_RESERVED = frozenset((*_OURS, *_OF_PROGRAMS))
_RESERVED_BEGINNINGS = (
    *("TURNKEEPER", "LD_", "DYLD_", "LC_", "XDG_", "PYTHON", "PERL", "RUBY", "BUN_", "DENO_", "PIP_"),
    *("GIT_CONFIG", "NPM_CONFIG_", "MALLOC_", "GLIBC_"),
)
"""A secret is for what an agent does. What decides how programs start, what they load and whom they trust is not."""


def wrong_name(name: str) -> str | None:
    """Why nothing can be called so; None: it can."""
    if not NAME.fullmatch(name):
        return (
            "must be 1 to 64 capital letters, digits and '_', beginning with a letter, such as GITHUB_TOKEN"
        )
    if name in _RESERVED or name.startswith(_RESERVED_BEGINNINGS):
        return "is a variable that changes how programs start; choose another name"
    return None


def wrong_value(value: str) -> str | None:
    """The same for a value; the words do not repeat it."""
    if len(value) < SHORTEST or len(value.strip()) < SHORTEST:
        return f"has fewer than {SHORTEST} characters: it could not be hidden in what an agent prints"
    if "\0" in value:
        return "holds the character NUL, which no variable can"
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return "is not Unicode: it holds half a surrogate pair"
    return f"is larger than {LARGEST} bytes" if size > LARGEST else None
