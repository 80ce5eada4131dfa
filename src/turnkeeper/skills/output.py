"""Whether what an agent claims is its result really is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from turnkeeper.core.contract import Contract
from turnkeeper.core.evidence import Claim, Ladder, read_claim, text_without_marker, without_marker
from turnkeeper.core.gate import Output
from turnkeeper.core.run import Mode
from turnkeeper.skills import schema


@dataclass(frozen=True, slots=True)
class Finding:
    """The claim, and what the skill's schema says about it."""

    claim: Claim
    output: Output
    value: dict[str, Any] | None
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Files:
    """Artifacts at the end of a turn: what is in the workspace, and the required patterns that match nothing."""

    there: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def examine(messages: Sequence[str], contract: Contract, mode: Mode, files: Files) -> Finding:
    claim = read_claim(messages)
    missing = [f"required artifact {pattern!r} is not in the workspace" for pattern in files.missing]
    if contract.output_schema is not None:
        return _by_schema(claim, contract.output_schema, missing)
    value, rung = _without_schema(claim, contract, files)
    if value is None:
        return Finding(claim, Output.NONE, None, ("the last message has no text", *missing))
    errors = list(missing)
    if mode is Mode.INTERACTIVE and not claim.marker:
        errors.append("without an output schema only the done marker completes a conversation")
    return Finding(
        replace(claim, rung=rung), Output.INVALID if errors else Output.VALID, value, tuple(errors)
    )


def _by_schema(claim: Claim, wanted: Any, missing: Sequence[str]) -> Finding:
    if claim.candidate is None:
        return Finding(claim, Output.NONE, None, ("no JSON object was found in the last message", *missing))
    value = without_marker(claim.candidate)
    errors = [*schema.errors(wanted, value), *missing]
    if not value and not claim.marker and not errors:
        # A schema that accepts {} would take any stray pair of braces for a result.
        errors.append("/: an empty object completes only with the done marker")
    return Finding(claim, Output.INVALID if errors else Output.VALID, value, tuple(errors))


def _without_schema(claim: Claim, contract: Contract, files: Files) -> tuple[dict[str, Any] | None, Ladder]:
    """A plain skill's result is its text; one with a runner may give an object all the same."""
    business = without_marker(claim.candidate) if claim.candidate else None
    if business and not contract.is_plain:
        return business, claim.rung
    text = text_without_marker(claim.text)
    return ({"text": text, "artifacts": list(files.there)}, Ladder.TEXT) if text else (None, Ladder.NONE)
