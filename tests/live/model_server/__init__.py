"""A model on loopback that answers real agent CLIs by script: OpenAI Responses and chat, Gemini, and Anthropic.

A marker in what the user says picks the answer. Only texts of the user count, of these the newest that has a marker,
and of its markers the last. Without one the answer is "ok". An argument ends at the first `]]`.

| Marker | Answer |
| --- | --- |
| `[[ask]]` | a question in plain words |
| `[[done]]`, `[[done:JSON]]` | an object with the done marker: `{"answer": "42"}`, or this one |
| `[[object]]`, `[[object:JSON]]` | the same without the done marker |
| `[[say:TEXT]]` | the text |
| `[[long:N]]` | N letters |
| `[[tool]]` | a shell call, and then as `[[done]]` |
| `[[shell:CMD]]` | a shell call of CMD, and then a sentence with what it printed |
| `[[tell:CMD]]` | the same, and then as `[[done]]`, with what it printed as the answer |
| `[[echo]]` | a shell call that prints a done marker, and then a question |
| `[[longtool]]` | a shell call that does not end |
| `[[slow:N]]` | a text, after N seconds of silence |
| `[[hang]]` | half a text, and then silence until the client goes away |
| `[[drop]]` | half a text, and then the connection is closed |
| `[[status:NNN]]` | this HTTP status, in the provider's words; 429 says when to try again |
| `[[fail:quota]]`, `[[fail:model]]`, `[[fail:context]]` | no credit, no such model, too long a prompt |

By hand: `python -m tests.live.model_server`, then `curl :PORT/__log` shows what was asked, and
`curl :PORT/__force -d '[[ask]]'` makes this marker pick each answer until an empty one is posted.
"""

from .log import Seen
from .server import ModelServer
from .wire import CACHED_TOKENS, INPUT_TOKENS, OUTPUT_TOKENS, REASONING_TOKENS

__all__ = [
    "CACHED_TOKENS",
    "INPUT_TOKENS",
    "OUTPUT_TOKENS",
    "REASONING_TOKENS",
    "ModelServer",
    "Seen",
]
