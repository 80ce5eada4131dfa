"""How people reach it: parse, call, render."""

from __future__ import annotations

import sys

from pydantic import BaseModel

# FastAPI describes APIs by fifty models. Here they are put together when the first description is asked for, which
# hardly anybody does: all of them at once were a tenth of a start.
BaseModel.model_config["defer_build"] = True
import fastapi.openapi.models  # noqa: E402, F401

del BaseModel.model_config["defer_build"]

# FastAPI looks there for models of pydantic 1, to refuse them. We have none, and are told so without loading it.
sys.modules.setdefault("pydantic.v1", None)  # type: ignore[arg-type]
