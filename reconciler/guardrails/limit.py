"""A guardrail as a value: it is compared, remembered by the state, and shown, wherever it was read."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from msgspec import Struct
from pydantic import ValidationError

from reconciler.core.advice import Command, command
from reconciler.core.errors import ReconcilerError


class Limit(Struct, frozen=True):
    """One document of a guardrail file. `written`: its `spec` as JSON. `place`: where it stands, in words."""

    kind: str
    name: str
    written: str
    place: str = "the state, from an earlier run"

    @property
    def spec(self) -> Any:
        """The validated spec."""
        return _spec(self.kind, self.written)

    def covers(self, other: object) -> bool:
        """Whether this one allows nothing that `other` refuses, whatever they are called."""
        if not isinstance(other, Limit) or other.kind != self.kind:
            return False
        return self.written == other.written or bool(self.spec.covers(other.spec))

    def to_json(self) -> Mapping[str, Any]:
        """What the state remembers. An older version takes it for an approval rule that it does not know."""
        return {"guardrail": {"kind": self.kind, "name": self.name, "spec": json.loads(self.written)}}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Limit":
        """Raises ReconcilerError for what a newer version wrote."""
        try:
            found = cls(data["kind"], data["name"], json.dumps(data["spec"]))
            _ = found.spec
        except (KeyError, TypeError, ValidationError):
            raise ReconcilerError(
                "the state remembers a guardrail that this version does not know",
                help="use the version that wrote it, or a newer one",
            ) from None
        return found

    @property
    def terms(self) -> str:
        return f"in {self.place}"

    @property
    def described(self) -> str:
        """It, as a sentence names it."""
        return f"`{self}`"

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


def how_to_sign(name: str, *, signed: bool) -> tuple[str, tuple[Command, ...]]:
    """How people let pass what a guardrail finds: a text, and its commands. `name`: what they override."""
    if signed:
        return "an approval overrides it", ()
    advice = (
        command("plan", "--out", "FILE"),
        command("approve", "FILE", "--override", name, "--reason", "TEXT"),
        command("apply", "--plan", "FILE", "--approval", "FILE.NAME.approval"),
    )
    return f"people may let it pass: `{'`, `'.join(map(str, advice))}`", advice


@cache
def _spec(kind: str, written: str) -> Any:
    from reconciler.guardrails.kinds import find_guardrails  # few projects have any

    return find_guardrails()[kind].Spec.model_validate_json(written)
