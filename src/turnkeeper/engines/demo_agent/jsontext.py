"""JSON text in and out, without the cost of `import json`, which would double the start of this program.

It calls the same C code as `json` does. That code is not a public interface, so whenever it looks different
from what we know, we use `json` itself.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

BLANKS = " \t\n\r"


def _borrowed() -> tuple[Callable[[str], Any], Callable[[Any], str]]:
    """`loads` and `dumps` on the C scanner and encoder of `json`."""
    from _json import encode_basestring, make_encoder, make_scanner

    class Rules:
        """What `json.JSONDecoder` sets when it is given no options."""

        strict = True
        array_hook = object_hook = object_pairs_hook = None
        parse_float, parse_int = float, int
        parse_constant = staticmethod(float)

    rules: Any = Rules
    scan = make_scanner(rules)
    encode = make_encoder(None, _refuse, encode_basestring, None, ": ", ", ", False, False, True)

    def loads(text: str) -> Any:
        text = text.strip(BLANKS)
        try:
            value, end = scan(text, 0)
        except (StopIteration, ValueError, SystemError):  # the last, when it misses its own exception class
            return _public()[0](text)  # says what is wrong
        return value if end == len(text) else _public()[0](text)

    def dumps(value: Any) -> str:
        return "".join(encode(value, 0))

    if dumps(loads('{"a": [1, 2.5, "é\\n", null, true]}')) != '{"a": [1, 2.5, "é\\n", null, true]}':
        raise TypeError("the C scanner and encoder have changed")
    return loads, dumps


def _public() -> tuple[Callable[[str], Any], Callable[[Any], str]]:
    import json

    return json.loads, lambda value: json.dumps(value, ensure_ascii=False)


def _refuse(value: object) -> object:
    raise TypeError(f"{type(value).__name__} is not JSON")


try:
    loads, dumps = _borrowed()
except (ImportError, AttributeError, TypeError):
    loads, dumps = _public()


def line(value: Any) -> bytes:
    """One line of UTF-8. Half a surrogate pair, which UTF-8 cannot hold, becomes its JSON escape again."""
    return dumps(value).encode("utf-8", "backslashreplace") + b"\n"
