"""What a named secret may be called and may hold: it becomes a variable of an engine's process."""

from __future__ import annotations

import re

NAME = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
SHORTEST = 8
"""Characters: a shorter value would be found in ordinary words, and could not be hidden."""
LONG = 16
"""Characters from which on a value may be of digits alone, or of few different ones: it is found nowhere by chance."""
LARGEST = 64 * 1024
"""Bytes: all of a process's variables have to fit into what the kernel takes."""
MOST = 100
"""Each is looked for in every byte that an engine prints."""

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
    *("ENV", "BASH_ENV", "BASHOPTS", "SHELLOPTS", "IFS", "CDPATH", "PROMPT_COMMAND", "PS4", "ZDOTDIR"),
    *("EDITOR", "VISUAL", "PAGER", "MANPAGER", "LESSOPEN", "LESSCLOSE", "LESSKEY", "BROWSER"),
    *("ELECTRON_RUN_AS_NODE", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "JAVA_OPTS", "JAVA_HOME", "CLASSPATH"),
    *(
        "MAVEN_OPTS",
        "GRADLE_OPTS",
        "GOPATH",
        "GOROOT",
        "GOPROXY",
        "GOENV",
        "GOTOOLCHAIN",
        "R_PROFILE",
        "R_ENVIRON",
    ),
    *(
        "GCONV_PATH",
        "LOCPATH",
        "NLSPATH",
        "HOSTALIASES",
        "LOCALDOMAIN",
        "RES_OPTIONS",
        "TAR_OPTIONS",
        "CURL_HOME",
    ),
    *(
        "AWS_CA_BUNDLE",
        "AWS_ENDPOINT_URL",
        "AWS_CONFIG_FILE",
        "SSH_ASKPASS",
        "WGETRC",
        "KUBECONFIG",
        "DOCKER_HOST",
    ),
    *("CC", "CXX", "LD", "AR", "CPATH", "LIBRARY_PATH"),
)
_RESERVED = frozenset((*_OURS, *_OF_PROGRAMS))
_RESERVED_BEGINNINGS = (
    *("TURNKEEPER", "LD_", "DYLD_", "LC_", "XDG_", "PYTHON", "PERL", "RUBY", "BUN_", "DENO_", "PIP_"),
    *(
        "GIT_",
        "NPM_CONFIG_",
        "NODE_",
        "UV_",
        "CARGO_",
        "RUST",
        "OPENSSL_",
        "SSL",
        "MALLOC_",
        "GLIBC_",
        "AWS_ENDPOINT_",
    ),
)
_RESERVED_ENDS = ("FLAGS",)
"""A secret is for what an agent does. What decides how programs start, what they load and whom they trust is not."""


def wrong_name(name: str) -> str | None:
    """Why nothing can be called so; None: it can."""
    if not NAME.fullmatch(name):
        return (
            "must be 1 to 64 capital letters, digits and '_', beginning with a letter, such as GITHUB_TOKEN"
        )
    if name in _RESERVED or name.startswith(_RESERVED_BEGINNINGS) or name.endswith(_RESERVED_ENDS):
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


def is_common(value: str) -> bool:
    """It may well stand in a text that has nothing to do with it, as a number or a word does: hidden there, it would
    break the text and tell the secret."""
    told = value.strip()
    return len(told) < LONG and (told.isdigit() or len(set(told)) < SHORTEST)


def too_common(value: str) -> str | None:
    if is_common(value):
        return (
            f"is a number, or has fewer than {SHORTEST} different characters: such a value stands in ordinary texts, "
            f"and could not be told from them; take one of {LONG} characters or more"
        )
    return None
