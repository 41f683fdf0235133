"""The table of what is watched: all that a kind's objects show, changed by hand, for every kind of record.

Each cell is told (by which code, with which exit), or docs/limits.md says that it cannot be seen. The rows
come from what kinds and wire models declare, so that a new kind joins by itself.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, get_args

import anyio
import pytest
import yaml

from reconciler.cli.verb import CHANGES, DONE, FAILED, code_of, first_of
from reconciler.core.diagnostics import has_errors
from reconciler.core.model import Address
from reconciler.core.steps import Binding, Plan
from reconciler.core.wire import Wire
from reconciler.doctor.check import Outcome
from reconciler.doctor.examine import check_objects
from reconciler.drift.find import Drift, find_drift
from reconciler.kinds import find_kinds
from reconciler.kinds.base import Kind
from reconciler.manifests.load import load
from reconciler.planning.declared import Desired
from reconciler.project.plan import make_plan
from tests.documents import plan_document
from tests.kinds.case import MANIFEST, NOW, LivePlatform, project_of

LIMITS = (Path(__file__).parents[2] / "docs" / "limits.md").read_text("utf-8")
# All that only looks at one object; lists of whole organizations and apps show more than is compared.
CAPABILITIES = ["machine.get", "secrets.list", "postgres.delete"]
PROVIDER = """\
apiVersion: reconciler/v1
kind: ExtensionProvider
metadata: {name: example}
spec: {base_url: "https://provider.example", signing_secret_from: {env: SIGNING}}
"""
NAMED = ("declared", "adopted", "inferred")  # where a manifest names the object


class Cell(NamedTuple):
    """What was told of one change: by codes, and with the exit code of drift."""

    codes: frozenset[str]
    exit: int
    drift: Drift
    plan: str
    bindings: Sequence[Binding]

    @property
    def told(self) -> bool:
        return bool(self.codes)


class World:
    """One recorded object of a kind, as its example declares it, and as the platform shows it."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.address = Address(kind.name, "OBJECT", "shop" if kind.in_app else None)
        metadata = {"name": "OBJECT", **({"app": "shop"} if kind.in_app else {})}
        document = {"apiVersion": "reconciler/v1", "kind": kind.name, "metadata": metadata}
        self.manifest = yaml.safe_dump({**document, "spec": dict(kind.example)})
        id = str(kind.example.get("id", "abcdefgh12345678" if kind.id_path[0] == "metadata" else "OBJECT"))
        self.id = "OBJECT" if kind.name == "Secret" else id
        read = kind.read(self.address, self.id, frozenset(CAPABILITIES))
        assert read is not None, f"{kind.name} cannot be read with {CAPABILITIES}"
        self.read, self.model = read, read.shape.model
        sent = {name: value for name, value in kind.example.items() if name != "id"}
        self.live = {name: _example(self.model, name) for name in self.model.model_fields}
        shown = {name: value for name, value in sent.items() if name in self.model.model_fields}
        healthy = {each.path: each.good for each in kind.watched if each.good}
        self.live |= {**shown, **healthy, "id": self.id, "name": "OBJECT"}
        if "state" in self.live and "state" not in healthy:
            self.live["state"] = sent.get("power", "created")
        self.applied = {**sent, "name": "OBJECT"}
        self.applied |= {"digest": self.live["digest"]} if "digest" in self.live else {}
        self.applied |= {"secrets": "set", "ours": "ext-1"} if "provider" in sent else {}
        with TemporaryDirectory() as folder:  # a later plan adds what the answer to the create left blank
            self.applied = {**{each.name: "" for each in kind.fields}, **self.applied}
            made = self.play(self.live, "declared", Path(folder)).bindings
        self.applied |= {name: value for each in made for name, value in each.applied.items()}

    def play(self, live: Mapping[str, Any] | None, column: str, folder: Path, **more: Any) -> Cell:
        """`live`: None: the object is not shown. `more`: of the record, of `reads` or of the case."""
        manifest = self.manifest if column in NAMED else PROVIDER
        (folder / MANIFEST).write_text(manifest + ("---\n" + PROVIDER if manifest != PROVIDER else ""))
        record = {"id": self.id, "applied": self.applied, **more.pop("record", {})}
        record["lifecycle"] = {"deletion": "delete", "snapshot_before": []} if column == "to delete" else {}
        record |= {"inferred": True} if column == "inferred" else {}
        record |= {"source": "other.yaml"} if column == "elsewhere" else {}
        objects = [live] if live is not None else []
        shape, path = self.read.shape, str(self.read.path)
        path = f"https://provider.example{path}" if "provider" in self.kind.example else path
        if shape.many:
            answer: Any = {self.model.many_at: objects} if self.model.many_at else objects
        elif live is None:
            answer = {"status": 404, "body": {"error": "not found"}}
        else:
            answer = {self.model.one_at: live} if self.model.one_at else live
        case = {
            "capabilities": CAPABILITIES,
            "env": {"SIGNING": "canary", "DB_PASSWORD": "canary"},
            "records": {str(self.address): record},
            "live": {path: answer, **more.pop("reads", {})},
            **more,
        }
        loaded = load([str(folder / MANIFEST)], root=folder)
        assert not has_errors(loaded.diagnostics), loaded.diagnostics
        desired = Desired(loaded.resources, (), lambda each: each.source == MANIFEST, loaded.policies)
        project = project_of(
            case, folder, loaded.policies, LivePlatform(case["live"], datetime.fromisoformat(NOW))
        )
        drift = anyio.run(find_drift, project, desired)
        plan = anyio.run(make_plan, project, desired)
        return _cell(drift, plan)


def _cell(drift: Drift, plan: Plan) -> Cell:
    codes = {each.code for each in drift.plan.diagnostics if each.code not in ("secret-source",)}
    codes |= {"drift"} if drift.plan.changes else set()
    codes |= {"unmanaged"} if drift.unmanaged else set()
    codes |= {"not looked at"} if drift.plan.outside else set()
    failed = code_of(drift.plan.diagnostics, FAILED) if has_errors(drift.plan.diagnostics) else DONE
    exit = first_of(failed, CHANGES if drift.plan.changes else DONE)
    return Cell(frozenset(codes), exit, drift, str(plan_document(plan)), plan.bindings)


def _example(model: type[Wire], name: str, *, other: bool = False) -> Any:
    """A value of the field; `other`: another one."""
    return _value(model.model_fields[name].annotation, name, other=other)


def _value(annotation: Any, name: str, *, other: bool) -> Any:
    known = [each for each in get_args(annotation) or (annotation,) if each is not type(None)]
    for kind in known:
        if name.endswith("_at"):
            return "2026-02-02T00:00:00Z" if other else "2026-01-01T00:00:00Z"
        if kind is bool:
            return other
        if kind is int:
            return 77 if other else 7
        if kind is str:
            return f"{name}-2" if other else name
        if isinstance(kind, type) and issubclass(kind, Wire):
            return {each: _example(kind, each, other=other) for each in kind.model_fields}
        if getattr(kind, "__origin__", None) is list:
            return [_value(get_args(kind)[0], name, other=other)]
    raise AssertionError(f"no value for {name}: {annotation}")


KINDS = find_kinds()
COLUMNS = (*NAMED, "retained", "to delete", "elsewhere")
QUIET: dict[tuple[str, str], Cell] = {}
OPEN = {
    "open call": ({"unknown-outcome"}, 3),
    "open call of a living process": ({"in-flight"}, 0),
    "unclaimed object": ({"unclaimed-object"}, 0),
    "outcome in a file": ({"outcomes-spooled"}, 0),
    "owed restart": (set[str](), 0),
}
HIDDEN = {  # with the sentence of docs/limits.md
    "another word": "any other word is taken for work that will end",
    "left out": "A field that an answer leaves out is unknown, not changed.",
    "no capability": "nothing of a Secret (`secrets.list`) or a Machine (`machine.get`) is read",
}


def rows() -> Iterator[Any]:
    for name, kind in KINDS.items():
        world = World(kind)
        shown = [field for field in world.model.model_fields if field not in world.model.ids[:1]]
        others = [each.name for each in kind.fields if each.name not in shown]
        for row in [*shown, *others, "(gone)", "(not shown)"]:
            yield pytest.param(name, row, id=f"{name}: {row}")


def _changed(world: World, row: str) -> Mapping[str, Any] | None:
    """What is shown once `row` was changed by hand."""
    if row == "(not shown)":
        return None
    if row == "(gone)":
        words = {"state": "destroyed", "status": "deleted"}
        found = {**world.live, **{name: word for name, word in words.items() if name in world.live}}
        return found if not world.model.model_validate(found).present else None
    for each in world.kind.watched:
        if each.path == row and each.bad:
            return {**world.live, row: each.bad[0]}
    if row in ("state", "power"):
        return {**world.live, "state": "failed"}
    if row not in world.model.model_fields:
        return world.live
    return {**world.live, row: _example(world.model, row, other=True)}


def _codes(kind: Kind, row: str, column: str) -> set[str]:
    """The codes of warnings beside `drift`."""
    if row in ("(gone)", "(not shown)"):
        return {"object-destroyed"} if column not in NAMED else set()
    return {each.code for each in kind.watched if each.path.partition(".")[0] == row and not each.owed}


def _quiet(world: World, column: str, folder: Path) -> Cell:
    """What is told while nothing has changed."""
    key = world.kind.name, column
    if key not in QUIET:
        QUIET[key] = world.play(world.live, column, folder)
    return QUIET[key]


def _limit(kind: Kind, row: str) -> str:
    """The line of docs/limits.md that says that the field cannot be seen; "" where there is none."""
    lines = re.findall(rf"^(\| {kind.name} \| (.*) \| .* \|)$", LIMITS, re.MULTILINE)
    return next((line for line, fields in lines if f"`{row}`" in fields), "")


@pytest.mark.parametrize(("name", "row"), list(rows()))
def test_each_change_by_hand_is_told_or_named_as_a_limit(name: str, row: str, tmp_path: Path) -> None:
    world = World(KINDS[name])
    for column in COLUMNS:
        cell = world.play(_changed(world, row), column, tmp_path)
        quiet = _quiet(world, column, tmp_path)
        assert quiet.exit == DONE, (column, quiet.drift.plan)
        if column == "elsewhere":
            assert cell.codes == {"not looked at"}
            continue
        told = cell.codes - quiet.codes
        limit = _limit(world.kind, row)
        assert bool(told) != bool(limit), f"{column}: told {told}; limit {limit!r}"
        if told == {"unmanaged"}:  # the manifest is silent about it: a note, which --all-fields counts
            assert column in NAMED
            assert cell.exit == DONE
        elif told:
            assert told >= {"drift", *_codes(world.kind, row, column)}
            assert cell.exit == CHANGES
            assert check_objects(cell.drift).outcome is Outcome.PROBLEM
            assert cell.plan != quiet.plan or column in NAMED


@pytest.mark.parametrize(("name", "what"), list(itertools.product(KINDS, OPEN)))
def test_what_is_open_is_told(name: str, what: str, tmp_path: Path) -> None:
    world = World(KINDS[name])
    address, scope = str(world.address), world.address.app or "org/personal"
    call = {"address": address, "method": "POST", "path": "/v1/anything", "scope": scope, "if_unknown": "ask"}
    cases: dict[str, dict[str, Any]] = {
        "open call": {"intents": [call]},
        "open call of a living process": {"intents": [call], "at_work": {scope: "ann@build-1"}},
        "unclaimed object": {"unclaimed": {"vol_9": address}},
        "outcome in a file": {"spooled": [scope]},
        "owed restart": {"record": {"obligations": [{"because": "extended"}]}},
    }
    codes, exit = OPEN[what]
    for column in COLUMNS[:-1]:
        cell = world.play(world.live, column, tmp_path, **cases[what])
        quiet = _quiet(world, column, tmp_path)
        assert cell.codes - quiet.codes == codes
        assert cell.exit == exit
        if what == "owed restart":
            assert [each.address for each in cell.drift.plan.owed] == [world.address]


@pytest.mark.parametrize(("name", "row"), list(itertools.product(KINDS, HIDDEN)))
def test_what_no_answer_shows_is_named_as_a_limit(name: str, row: str, tmp_path: Path) -> None:
    world = World(KINDS[name])
    word = next((each for each in ("state", "status") if each in world.live), None)
    live = dict(world.live)
    more: dict[str, Any] = {}
    if row == "another word":
        live |= {word: "another-word"} if word else {}
    elif row == "left out":
        live = {each: live[each] for each in ("id", "name", word) if each in live}
    else:
        more = {"capabilities": []}
    for column in COLUMNS[:-1]:
        cell, quiet = world.play(live, column, tmp_path, **more), _quiet(world, column, tmp_path)
        assert cell.codes - quiet.codes <= {"drift", "not-compared"}
        assert cell.exit == (CHANGES if "drift" in cell.codes else DONE)
    assert HIDDEN[row] in " ".join(LIMITS.split())


@pytest.mark.parametrize("machine", ["m2", None])
def test_a_volume_is_told_that_left_the_machine_that_owes_a_restart(
    machine: str | None, tmp_path: Path
) -> None:
    world = World(KINDS["Volume"])
    for column in COLUMNS[:-1]:
        owed = {"record": {"obligations": [{"because": "extended", "machine": "m1"}]}}
        live = {**world.live, "attached_machine_id": machine, "attached_alloc_id": None}
        alone = {f"/v1/apps/shop/volumes/{world.id}": live}
        cell = world.play(live, column, tmp_path, reads=alone, **owed)
        assert cell.codes >= {"drift", "restart-elsewhere"}
        assert cell.exit == CHANGES
        told = next(each for each in cell.drift.plan.diagnostics if each.code == "restart-elsewhere")
        assert told.addresses == (str(world.address),)
        # A plan that settles the restart, since no machine has the volume, does not warn of it.
        settled = "restart-settled" in cell.plan
        assert settled == (machine is None and column in NAMED)
        assert not (settled and "restart-elsewhere" in cell.plan)
