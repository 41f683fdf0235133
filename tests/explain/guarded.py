"""Situations of guardrails: the page's file is one, and a volume of 10 GB exists."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import anyio
import pytest

from reconciler.approvals.judging import Given
from reconciler.approvals.rules import Authority, Said
from reconciler.core.diagnostics import Diagnostic
from reconciler.core.errors import Refused
from reconciler.core.extras import extra_missing
from reconciler.execution.decisions import MADE, remember
from reconciler.guardrails import engine
from reconciler.guardrails.limit import Limit, read_limits
from reconciler.manifests.load import load
from reconciler.planning.declared import Desired
from reconciler.project.apply import apply
from reconciler.project.plan import make_plan
from tests.execution.stage import Stage, loaded, volume
from tests.explain.projects import Act
from tests.kinds.case import MANIFEST


def of_file(guardrail: str, folder: Path) -> Sequence[Diagnostic]:
    """What is said of the page's file while it is read."""
    return _read(guardrail, folder)[1]


def _read(guardrail: str, folder: Path) -> tuple[Sequence[Limit], Sequence[Diagnostic]]:
    (folder / "guardrails").mkdir(exist_ok=True)
    (folder / "guardrails/growth.yaml").write_text(guardrail, encoding="utf-8")
    return read_limits(["guardrails/*.yaml"], folder)


def without_engine(guardrail: str, folder: Path) -> Sequence[Diagnostic]:
    """What is said of the page's file where the library is missing."""

    def missing(types: object) -> object:
        raise extra_missing("policy", "guardrails need cel_expr_python, which is not installed here")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "_environments", missing)
        engine._compiled.cache_clear()
        return of_file(guardrail, folder)


def plan_of(name: str, size_gb: int) -> Act:
    """What a plan says that wants the volume `name` in that size."""

    def act(guardrail: str, folder: Path) -> Sequence[Diagnostic]:
        limits, _ = _read(guardrail, folder)
        (folder / MANIFEST).write_text(volume(name, f"region: ams, size_gb: {size_gb}"), encoding="utf-8")

        async def work() -> Sequence[Diagnostic]:
            stage = Stage(folder)
            try:
                await stage.apply(volume())
                project = replace(stage.project(), authority=Authority(Said(tuple(limits))))
                resources = load([str(folder / MANIFEST)], root=folder).resources
                return (await make_plan(project, Desired(resources))).diagnostics
            finally:
                await stage.close()

        return anyio.run(work)

    return act


def now_in_the_morning(guardrail: str, folder: Path) -> Sequence[Diagnostic]:
    """What an apply says that wants a held volume to grow at once, and that nobody signed."""
    limits, _ = _read(guardrail, folder)

    async def work() -> Sequence[Diagnostic]:
        stage = Stage(folder)
        try:
            await stage.apply(volume())
            stage.hold()
            await stage.time.sleep(9 * 3600)
            project = replace(stage.project(), authority=Authority(Said(tuple(limits))))
            resources = loaded(stage, volume(spec="region: ams, size_gb: 20"))
            given = Given(now=("Volume/shop/data",))
            with pytest.raises(Refused) as refused:
                await apply(project, Desired(resources), approve=lambda plan: True, given=given)
            return refused.value.diagnostics
        finally:
            await stage.close()

    return anyio.run(work)


GONE = "lifecycle: {deletion: delete, snapshot_before: []}\n"
COPY = volume("copy", "from: {volume: data}", GONE)


def within_budget(*applied: str, wanted: str, old: bool = True) -> Act:
    """What a plan says that wants `wanted`, after some applies. `old`: the state was made a month ago."""

    def act(guardrail: str, folder: Path) -> Sequence[Diagnostic]:
        limits, _ = _read(guardrail, folder)

        async def work() -> Sequence[Diagnostic]:
            stage = Stage(folder)
            try:
                project = stage.project()
                made = (stage.time.now() - timedelta(days=31 if old else 0)).isoformat()
                await remember(stage.store, project.actor(), MADE, lambda known: {"at": made})
                for manifests in applied:
                    gone = ("Volume/shop/copy",) if "copy" not in manifests and COPY in applied[0] else ()
                    await stage.apply(manifests, approved_deletes=gone)
                    await stage.time.sleep(3600)
                guarded = replace(project, authority=Authority(Said(tuple(limits))))
                resources = load(["-"] if wanted else [], root=folder, stdin=wanted.encode).resources
                return (await make_plan(guarded, Desired(resources))).diagnostics
            finally:
                await stage.close()

        return anyio.run(work)

    return act


def among_manifests(guardrail: str, folder: Path) -> Sequence[Diagnostic]:
    """What is said of the page's file where manifests are."""
    (folder / MANIFEST).write_text(guardrail, encoding="utf-8")
    return load([str(folder / MANIFEST)], root=folder).diagnostics


DATA = volume(rest=GONE)
ACTS: dict[str, Act] = {
    "budget-unknown": within_budget(DATA, wanted=DATA + volume("logs"), old=False),
    "over-budget": within_budget(DATA, wanted=DATA + volume("logs")),
    "unprotected-delete": within_budget(DATA + COPY, DATA, wanted=""),
    "guardrail-advised": plan_of("data", 30),
    "guardrail-elsewhere": among_manifests,
    "guardrail-expression": of_file,
    "guardrail-undecided": plan_of("data", 30),
    "policy-engine-missing": without_engine,
    "refused-by-guardrail": plan_of("data", 30),
    "window-closed": now_in_the_morning,
}
