"""What the head of a request may be: an address and headers of some size, and no key in the address."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, unquote_plus

from starlette.types import Scope

from turnkeeper.core import keys
from turnkeeper.core.errors import Code

KB = 1024
MAX_URL = 8 * KB
MAX_HEADERS = 32 * KB
MAX_HEAD = MAX_URL + MAX_HEADERS + KB
"""More is never kept of a head that is not whole yet; the last kilobyte is for the method and the line breaks."""
KEY_NAMES = frozenset({"token", "access_token", "api_key", "key"})
"""What other services call the parameter that brings a key. Ours is in a header, always."""
MOST_PARAMETERS = 100
_KEY = re.compile(
    rf"(?<![A-Za-z0-9_])(?:{keys.PREFIX}[{keys.ID_LETTERS}]{{{keys.ID_LENGTH}}}_[A-Za-z0-9]{{{keys.SECRET_LENGTH}}}"
    r"|tkl_Wy[IJ][A-Za-z0-9_-]{13})"
)
"""A key, or how the secret of a link begins; not words that only begin so, in the middle of others."""

TOO_LONG = f"the address may have at most {MAX_URL} bytes"
TOO_LARGE = f"the headers may have at most {MAX_HEADERS} bytes together"
KEY_IN_URL = (
    "the address has a key in it, and was logged on the way here: revoke that key, and send the new one as "
    "'Authorization: Bearer KEY'"
)


def oversize(scope: Scope) -> tuple[Code, str] | None:
    """Found out after the head was read; a head that comes in pieces is broken off before it is whole."""
    if len(scope["raw_path"]) + 1 + len(scope["query_string"]) > MAX_URL:
        return Code.URL_TOO_LONG, TOO_LONG
    if sum(len(name) + len(value) + 4 for name, value in scope["headers"]) > MAX_HEADERS:
        return Code.HEADERS_TOO_LARGE, TOO_LARGE
    return None


def has_key(scope: Scope) -> bool:
    """One that can be told by its form, whoever's it is."""
    return bool(_KEY.search(scope["path"]) or _KEY.search(unquote_plus(_query(scope))))


def given_as_key(scope: Scope) -> list[str]:
    """Values of parameters that are called as if they brought one: they may be a token, which has no form."""
    query = _query(scope)
    if not query:
        return []
    try:
        pairs = parse_qsl(query, max_num_fields=MOST_PARAMETERS)
    except ValueError:
        return []  # so many that nobody means any of them; routes read the few that they know
    return [value for name, value in pairs if name.lower() in KEY_NAMES]


def _query(scope: Scope) -> str:
    return bytes(scope["query_string"]).decode("latin-1")
