"""Situations of pages that no case file can hold: bytes, paths, documents, and what only an apply says."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import anyio
import click
import pytest

from reconciler.approvals.judging import Given
from reconciler.approvals.rules import Authority, Rule, Said, Signers
from reconciler.approvals.statement import Approval, Statement
from reconciler.cli.command_line import command_line
from reconciler.cli.main import cli, run
from reconciler.cli.signals import Interrupted
from reconciler.cli.verb import report_interrupted
from reconciler.core.clock import SystemClock
from reconciler.core.diagnostics import Diagnostic, Severity
from reconciler.core.errors import ManifestError, Refused, StateMoved
from reconciler.core.model import Address, Lifecycle, StateRecord
from reconciler.core.state_url import DEFAULT_URL
from reconciler.core.steps import Plan
from reconciler.drift.find import find_drift
from reconciler.inventory.prices import read_prices
from reconciler.manifests.load import load
from reconciler.planning.declared import Desired
from reconciler.project.apply import apply, run_saved
from reconciler.project.identity import refuse_other_platform
from reconciler.project.plan import make_plan
from reconciler.project.settings import find_settings
from reconciler.reports.formats import find_formats
from reconciler.state.places.sqlite.store import SqliteStore
from reconciler.state.store import LOST_ROWS, REMEMBERED, WHOLE_STATE, Event, JournalEntry, State
from tests.execution.stage import Stage, loaded
from tests.explain import drilled, encrypted, guarded, projects, sources
from tests.explain.pages import situation
from tests.explain.projects import VOLUME, Act
from tests.kinds.case import MANIFEST, opened, play
from tests.state.doubles import Unwritable, holding, read_only, spooling

# --- files and paths ---


def of_bytes(data: bytes) -> Act:
    def act(manifest: str, folder: Path) -> Sequence[Diagnostic]:
        (folder / MANIFEST).write_bytes(data)
        return load([str(folder / MANIFEST)], root=folder).diagnostics

    return act


def of_path(given: str, prepare: Callable[[Path], None] = lambda folder: None) -> Act:
    """What `reconcile validate` says of the path `given`, in a folder that has an empty `manifests`."""

    def act(manifest: str, folder: Path) -> Sequence[Diagnostic]:
        (folder / "manifests").mkdir()
        prepare(folder)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            return load([given], root=folder).diagnostics

    return act


def link_out(folder: Path) -> None:
    (folder / "shared.yaml").write_text(VOLUME % "data", encoding="utf-8")
    (folder / "manifests/logs.yaml").write_text(VOLUME % "logs", encoding="utf-8")
    (folder / "manifests/shared.yaml").symlink_to(folder / "shared.yaml")


def settings(manifest: str, folder: Path) -> Sequence[Diagnostic]:
    (folder / "reconcile.yaml").write_text(manifest, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with pytest.raises(ManifestError) as failure:
            find_settings(Path(), {})
    return failure.value.diagnostics


def prices(manifest: str, folder: Path) -> Sequence[Diagnostic]:
    (folder / "prices.csv").write_text("kind,region,unit,price\nVolume,ams,GB-month,0,15\n", encoding="utf-8")
    with pytest.raises(ManifestError) as failure:
        read_prices(folder / "prices.csv", folder)
    return failure.value.diagnostics


# --- JSON documents ---


def plan_without_settings(manifest: str, folder: Path) -> Sequence[Diagnostic]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (folder / "manifests").mkdir()
        (folder / "manifests/volume.yaml").write_text(VOLUME % "data", encoding="utf-8")
        patch.delenv("RECONCILE_BASE_URL", raising=False)
        return of_document(lambda: run(["plan", "--output", "json"]))


def list_of_another_state(manifest: str, folder: Path) -> Sequence[Diagnostic]:
    (folder / "reconcile.yaml").write_text(manifest, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("RECONCILE_STATE", raising=False)
        return of_document(lambda: run(["state", "list", "--output", "json"]))


def state_that_has_moved(manifest: str, folder: Path) -> Sequence[Diagnostic]:
    async def use() -> None:
        store = SqliteStore(Path(".reconcile/state.db"), SystemClock(), backups=False)
        try:
            await store.create()
            await store.retire("postgresql://db.example.com/reconcile", await store.export())
            await store.load()
        finally:
            await store.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with pytest.raises(StateMoved) as moved:
            anyio.run(use)
    return moved.value.diagnostics


def plan_of_another_platform(manifest: str, folder: Path) -> Sequence[Diagnostic]:
    state = State("lineage-1", {}, (), frozenset(), platform="https://api.example.com")
    with pytest.raises(Refused) as refused:
        refuse_other_platform(state, "https://staging.example.com", DEFAULT_URL)
    return refused.value.diagnostics


def interrupted_apply(manifest: str, folder: Path) -> Sequence[Diagnostic]:
    def ended() -> int:
        with click.Context(cli):
            command_line().format = find_formats()["json"]
            return report_interrupted(Interrupted(2), "interrupted; nothing was changed")

    return of_document(ended)


def of_document(work: Callable[[], int]) -> Sequence[Diagnostic]:
    """The diagnostics of the JSON document that `work` prints."""
    stdout = StringIO()
    with redirect_stdout(stdout), redirect_stderr(StringIO()):
        assert work() != 0
    return [
        Diagnostic(item["code"], Severity(item["severity"]), item["message"], help=item.get("help", ""))
        for item in json.loads(stdout.getvalue())["diagnostics"]
    ]


# --- what an apply says ---


def apply_of(code: str, meanwhile: Mapping[str, Any] = {}) -> Act:
    """What an apply refuses. `meanwhile`: what the platform answers once the plan is approved."""

    def act(manifest: str, folder: Path) -> Sequence[Diagnostic]:
        case = {"manifests": manifest, **(situation(code) or {})}
        project, loaded, platform = opened(case, folder)
        state = anyio.run(project.store.load)
        project = replace(
            project, store=spooling(Unwritable(holding(state, project.clock)), project.clock, folder)
        )

        def approve(plan: Plan) -> bool:
            platform.live = {**case["live"], **meanwhile}
            return True

        with pytest.raises(Refused) as refused:
            anyio.run(partial(apply, project, Desired(loaded.resources), approve=approve))
        return refused.value.diagnostics

    return act


def saved_before(then: Callable[[str], str] = str, *, times: int = 1) -> Act:
    """What the apply of a saved plan says, the last of `times`, when the manifests have become `then`."""

    def act(manifest: str, folder: Path) -> Sequence[Diagnostic]:
        async def work() -> Sequence[Diagnostic]:
            stage = Stage(folder)
            try:
                plan = await make_plan(stage.project(), Desired(loaded(stage, manifest)))
                desired = Desired(loaded(stage, then(manifest)))
                told = [await run_saved(stage.project(), desired, plan, ()) for _ in range(times)]
            except Refused as refused:
                return refused.diagnostics
            finally:
                await stage.close()
            return told[-1].plan.diagnostics

        return anyio.run(work)

    return act


def plan_beside_older_objects(manifest: str, folder: Path) -> Sequence[Diagnostic]:
    """What a plan says while a list shows an object from before the state."""
    older = {"id": "vol_older", "name": "other", "state": "created", "created_at": "2026-04-01T00:00:00Z"}
    case = {"manifests": manifest, "live": {"/v1/apps/shop/volumes": [older]}}
    made_at = datetime(2026, 5, 1, tzinfo=UTC)
    made = StateRecord(
        Address(REMEMBERED, "made"), "", WHOLE_STATE, {"at": made_at.isoformat()}, Lifecycle(), made_at
    )
    return _plan_in(
        State("lineage-1", {made.address: made}, (), frozenset(), serials={WHOLE_STATE: 1}), case, folder
    )


def of_unclaimed(id: str, because: str) -> Act:
    """What a plan says while the state holds an object, or lost rows, that no record tracks."""

    def act(manifest: str, folder: Path) -> Sequence[Diagnostic]:
        entry = JournalEntry(
            "run-0",
            Event.DECIDED,
            datetime(2026, 5, 1, tzinfo=UTC),
            Address("Volume", "old", "shop"),
            data={"unclaimed": id, "because": because},
        )
        case = {"manifests": manifest, "live": {"/v1/apps/shop/volumes": []}}
        return _plan_in(State("lineage-1", {}, (), frozenset(), unclaimed=(entry,)), case, folder)

    return act


def _plan_in(state: State, case: Mapping[str, Any], folder: Path) -> Sequence[Diagnostic]:
    project, loaded, _ = opened(case, folder)
    project = replace(project, store=read_only(state, project.clock, folder))
    return anyio.run(make_plan, project, Desired(loaded.resources)).diagnostics


def apply_with(code: str, *approvals: Approval) -> Act:
    """What the apply of a saved plan refuses where a rule asks two people about each delete."""

    def act(manifest: str, folder: Path) -> Sequence[Diagnostic]:
        case = {"manifests": manifest, **(situation(code) or {})}
        plan = play(case, folder).plan
        assert plan is not None
        project, _, _ = opened(case, folder)
        rule = Rule.model_validate({"when": {"action": "delete"}, "from": 2})
        authority = Authority(Said((rule,), (Signers("eva", "`allowed_signers`"),)))
        project = replace(project, authority=authority)
        given = Given(approvals)
        with pytest.raises(Refused) as refused:
            anyio.run(partial(run_saved, project, Desired(()), plan, ["Volume/shop/data"], given=given))
        return refused.value.diagnostics

    return act


def apply_by_fewer(manifest: str, folder: Path) -> Sequence[Diagnostic]:
    """What an apply says whose rule asks one person, after one whose rule asked two."""

    async def work() -> Sequence[Diagnostic]:
        stage = Stage(folder)
        found: Sequence[Diagnostic] = ()
        try:
            for people in (2, 1):
                rule = Rule.model_validate({"when": {"action": "delete"}, "from": people})
                project = replace(stage.project(), authority=Authority(Said((rule,))))
                desired = Desired(load(["-"], root=folder, stdin=manifest.encode).resources)
                found = (await apply(project, desired, approve=lambda plan: True)).plan.diagnostics
        finally:
            await stage.close()
        return found

    return anyio.run(work)


def of_drift_without_a_state(manifest: str, folder: Path) -> Sequence[Diagnostic]:
    """What `reconcile drift` says where nobody has made a state."""
    project, loaded, _ = opened({"manifests": manifest}, folder)
    store = read_only(State("", {}, (), frozenset()), project.clock, folder)
    project = replace(project, store=store, state_url=DEFAULT_URL)
    return anyio.run(find_drift, project, Desired(loaded.resources)).plan.diagnostics


def plan_in_the_state_of_others(manifest: str, folder: Path) -> Sequence[Diagnostic]:
    """What a plan says where the state has the volume of another app."""
    live = {
        "/v1/apps/shop/volumes": [{"id": "vol_1", "name": "data", "state": "created", "size_gb": 10}],
        "/v1/apps/blog/volumes": [],
    }
    records = {"Volume/shop/data": {"id": "vol_1", "applied": {"size_gb": 10}}}
    project, loaded, _ = opened({"manifests": manifest, "records": records, "live": live}, folder)
    return anyio.run(
        make_plan, replace(project, state_url=DEFAULT_URL), Desired(loaded.resources)
    ).diagnostics


def apply_while(*, method: str = "POST", path: str = "*", **fault: Any) -> Act:
    """What an apply reports when the platform answers each such request so: each mutation, if not told."""

    def act(manifest: str, folder: Path) -> Sequence[Diagnostic]:
        async def work() -> Sequence[Diagnostic]:
            stage = Stage(folder)
            try:
                stage.fault(method=method, path=path, times=None, **fault)
                return (await stage.apply(manifest)).notices
            finally:
                await stage.close()

        return anyio.run(work)

    return act


def plan_while(**fault: Any) -> Act:
    """What a plan is refused with when the platform answers each read so."""

    def act(manifest: str, folder: Path) -> Sequence[Diagnostic]:
        async def work() -> Sequence[Diagnostic]:
            stage = Stage(folder)
            stage.fault(method="GET", path="*", times=None, **fault)
            try:
                await stage.apply(manifest)
            except Refused as refused:
                return refused.diagnostics
            finally:
                await stage.close()
            return ()

        return anyio.run(work)

    return act


SAID_FOR_PROD = Statement(
    plan="a" * 64,
    rehearsal="",
    environment="prod",
    lineage="lineage-1",
    principal="ana@example.com",
    reason="old data",
    at=datetime(2026, 5, 1, tzinfo=UTC),
    expires=datetime(2026, 5, 2, tzinfo=UTC),
    id="0" * 32,
)

ACTS: dict[str, Act] = {
    **encrypted.ACTS,
    **drilled.ACTS,
    **guarded.ACTS,
    **sources.ACTS,
    **projects.ACTS,
    "approval-dead": apply_with(
        "approval-dead", Approval(SAID_FOR_PROD, b"", "the.plan.ana@example.com.approval")
    ),
    "approval-needed": apply_with("approval-needed"),
    "bad-price": prices,
    "bad-setting": settings,
    "control-character": of_bytes((VOLUME % "data\a").encode()),
    "create-not-approved": apply_of("create-not-approved"),
    "delete-not-approved": apply_of("delete-not-approved"),
    "empty-file": of_bytes(b"# data.yaml: moved to volumes.yaml\n"),
    "failed": plan_without_settings,
    "file-too-large": of_bytes(b"-- dump\n" * (1 << 20)),
    "interrupted": interrupted_apply,
    "line-too-long": of_bytes(b"[" + b"data, " * 200_000 + b"]"),
    "missing-path": of_path("manifest"),
    "moved": apply_of(
        "moved",
        {"/v1/apps/shop/volumes": [{"id": "vol_2", "name": "data", "state": "created", "size_gb": 10}]},
    ),
    "no-manifests": of_path("manifests"),
    "not-utf8": of_bytes((VOLUME % "caf\xe9").encode("latin-1")),
    "older-objects": plan_beside_older_objects,
    "other-state": list_of_another_state,
    "other-platform": plan_of_another_platform,
    "plan-moved": saved_before(lambda manifest: manifest.replace("size_gb: 10", "size_gb: 20")),
    "not-in-plan": saved_before(lambda text: f"{text}---\n{text.replace('name: data', 'name: logs')}"),
    "allowed-difference": saved_before(times=2),
    "perhaps-other-state": plan_in_the_state_of_others,
    "platform-down": plan_while(action="status", status=503),
    "rate-limited": apply_while(action="rate_limited", retry_after=20),
    "reserved-environment": settings,
    "rules-loosened": apply_by_fewer,
    "state-missing": of_drift_without_a_state,
    "state-moved": state_that_has_moved,
    "state-incomplete": of_unclaimed(LOST_ROWS, "the journal from 10:00 to 11:00 could not be read"),
    "symlink-outside": of_path("manifests", link_out),
    "token-refused": apply_while(action="status", status=401),
    "too-deep": of_bytes((VOLUME % "data").encode() + b"---\n" + b"[" * 70 + b"]" * 70),
    "too-large": of_bytes((VOLUME % "data").encode() + b"---" + b"\n- 1" * 20_001),
    "too-many-problems": of_bytes("---\n".join([VOLUME.replace(", app: shop", "") % "data"] * 101).encode()),
    "unclaimed-object": of_unclaimed("vol_7", "its answer came after the call was settled"),
    "unreadable-file": of_path("/dev/null"),
    "wait-unanswered": apply_while(method="GET", path="/v1/postgres/*", action="status", status=503),
}
