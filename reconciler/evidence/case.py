"""A run as a folder: the world and the records that it started with, its manifests, faults and trace.

`seed.json` and `faults.json` are a sandbox's own formats, `manifests.yaml` what `build` prints.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from reconciler.core.errors import ReconcilerError
from reconciler.core.model import Address, StateRecord
from reconciler.state.codec import decode_record

MANIFESTS = "manifests.yaml"
_PARTS = {"seed": "seed.json", "faults": "faults.json", "trace": "trace.json"}
_CASE = "case.json"
_MOST_BYTES = 16 << 20  # of one file


class CaseLimits(BaseModel):
    """`execution.limits.Limits`, checked."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    concurrency: int
    deadline_s: float
    settle_s: float
    adopt_inferred: bool
    read_concurrency: int


class Case(BaseModel):
    """`began`: its start. `about`: the addresses of its plan. `records`: by address, as journaled.

    `entries`: the length of its journal where it was cut off; None: it came to its end.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["reconcile-case-1"] = "reconcile-case-1"
    run: str
    began: str
    about: list[str]
    records: dict[str, dict[str, Any]]
    capabilities: list[str]
    limits: CaseLimits
    rate_limit: float | None
    switches: dict[str, Any]
    entries: int | None
    seed: dict[str, Any]
    faults: list[dict[str, Any]]
    trace: dict[str, Any]
    manifests: str

    def state_records(self) -> Mapping[Address, StateRecord]:
        """The records. Raises ValueError, KeyError or TypeError where one is not a record."""
        found = {}
        for text, fields in self.records.items():
            address = Address.parse(text)
            body = {name: value for name, value in fields.items() if name != "serial"}
            found[address] = decode_record(address, int(fields["serial"]), json.dumps(body).encode())
        return found


def write_case(case: Case, folder: Path) -> None:
    """Write the folder, or nothing. Raises ReconcilerError where it exists, or cannot be made."""
    if os.path.lexists(folder):
        raise ReconcilerError(f"{folder} exists already", help="name another folder, or remove it")
    document = case.model_dump()
    texts = {MANIFESTS: document.pop("manifests")}
    texts |= {file: _json(document.pop(name)) for name, file in _PARTS.items()}
    texts[_CASE] = _json(document)
    made = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        for name, text in texts.items():
            (made / name).write_text(text, encoding="utf-8")
        made.chmod(0o755)
        made.rename(folder)
    except OSError as failure:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)
        raise ReconcilerError(f"{folder} cannot be written: {failure.strerror}") from failure


def read_case(folder: Path) -> Case:
    """Read a folder. Raises ReconcilerError where it holds no case of this version."""
    try:
        document = _parsed(folder / _CASE)
        if not isinstance(document, dict):
            raise ReconcilerError(f"{folder / _CASE} is not a case of `history export`")
        parts = {name: _parsed(folder / file) for name, file in _PARTS.items()}
        case = Case.model_validate({**document, **parts, "manifests": _text(folder / MANIFESTS)})
        case.state_records()
    except OSError as failure:
        raise ReconcilerError(f"{failure.filename} cannot be read: {failure.strerror}") from failure
    except ValidationError as failure:
        place = ".".join(map(str, failure.errors()[0]["loc"]))
        raise ReconcilerError(f"{folder} is not a case of this version: see `{place}`") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ReconcilerError(f"{folder} is not a case of this version: see `records`") from None
    return case


def _parsed(file: Path) -> Any:
    try:
        return json.loads(_text(file))
    except (ValueError, RecursionError):
        raise ReconcilerError(f"{file} is not JSON") from None


def _text(file: Path) -> str:
    with file.open("rb") as stream:
        content = stream.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ReconcilerError(f"{file} is larger than {_MOST_BYTES >> 20} MiB")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ReconcilerError(f"{file} is not text") from None


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True) + "\n"
