"""What is done while the platform answers wrongly, and what must hold then."""

import base64
import json
import shutil
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from reconciler.cli.apply import exit_code
from reconciler.core.errors import Diagnosed, ReconcilerError
from reconciler.core.model import Address, owed_work
from reconciler.core.steps import Plan
from reconciler.drift.find import find_drift
from reconciler.planning.saved import dump_plan
from reconciler.project.plan import make_plan
from reconciler.project.resolve import resolve_unknown
from reconciler.project.run import Applied
from reconciler.project.show import look_at
from reconciler.reports.diagnostics import render
from reconciler.reports.formats.text import render_drift, render_plan, render_results
from reconciler.reports.report import ApplyReport, DriftReport
from tests.documents import diagnostic_documents, document, drift_document, plan_document
from tests.reliability.responses.line import Exchange, Mutator, Recorded
from tests.reliability.responses.mutation import Given, Kind
from tests.reliability.responses.rules import (
    each_call_went_out_once,
    is_create,
    it_can_be_written,
    no_duplicates,
    no_value_is_told,
    nothing_was_made,
    nothing_was_made_or_removed,
    nothing_was_sent,
    provably_no,
)
from tests.reliability.responses.scene import (
    FIRST,
    LOST,
    LOST_VOLUMES,
    ORDERS,
    SECOND,
    SETTLE_S,
    VALUE,
    Scene,
    leave,
    make_templates,
    open_scene,
)

Shares = Mapping[Kind, float]
Rule = Callable[[Sequence[Exchange]], Iterable[str]]
_NEUTRAL: Shares = {"extra": 0.1, "odd": 0.25, "broken": 0.3}
_FALSE: Shares = {"odd": 0.1, "broken": 0.1, "lying": 0.5}
_SELDOM: Shares = {"extra": 0.05, "odd": 0.08, "broken": 0.12}
_REPLIES: Shares = {"extra": 0.05, "odd": 0.1, "broken": 0.35, "lying": 0.2}


@dataclass(frozen=True, slots=True)
class Situation:
    """`run` gives all that a person would be told. `rules` are about what went over the line.

    `reads`, `replies`: which share of the answers to GETs, and to mutations, is mutated how.
    `again`: afterwards the platform is itself again, and a second run may make no duplicate.
    """

    template: str
    run: Callable[[Scene, Random], Awaitable[str]]
    rules: tuple[Rule, ...]
    reads: Shares = field(default_factory=dict)
    replies: Shares = field(default_factory=dict)
    again: str = ""
    password: str = VALUE


# --- what is done ---


async def _plan(scene: Scene, rng: Random) -> str:
    return told_of_plan(await make_plan(scene.project, scene.desired(FIRST)))


async def _plan_changes(scene: Scene, rng: Random) -> str:
    return told_of_plan(await make_plan(scene.project, scene.desired(SECOND)))


async def _drift(scene: Scene, rng: Random) -> str:
    plan = (await find_drift(scene.project, scene.desired(FIRST))).plan
    return render_drift(DriftReport(plan=plan)) + _json(drift_document(plan)) + _told(plan.diagnostics)


async def _show(scene: Scene, rng: Random) -> str:
    address = rng.choice(await scene.addresses())
    shown = await look_at(scene.project, address)
    return (
        _json({"live": shown.live, **shown.details})
        + repr(shown.record)
        + repr(owed_work({address: shown.record}))
    )


async def _resolve(scene: Scene, rng: Random) -> str:
    address = rng.choice((ORDERS, Address.parse("Volume/shop/landed")))
    real = [item["id"] for kind in ("clusters", "volumes") for item in scene.world()[kind]]
    return await resolve_unknown(scene.project, address, adopt=rng.choice((*real, "vol_none", "..", None)))


async def _apply_first(scene: Scene, rng: Random) -> str:
    approved = [str(address) for address in await scene.addresses()]
    return _told_of(await scene.apply(FIRST, approved_deletes=approved))


async def _apply_changes(scene: Scene, rng: Random) -> str:
    approved = ("Volume/shop/staging", "Volume/shop/scratch")
    return _told_of(await scene.apply(SECOND, approved_deletes=approved))


async def _apply_lost(scene: Scene, rng: Random) -> str:
    return _told_of(await scene.apply(LOST_VOLUMES))


async def _apply_nothing(scene: Scene, rng: Random) -> str:
    """All manifests are gone, and two deletions are approved."""
    approved = ("Volume/shop/staging", "Volume/shop/scratch")
    ids = {volume["id"] for volume in scene.world()["volumes"] if volume["name"] in ("staging", "scratch")}
    try:
        return _told_of(await scene.apply("", approved_deletes=approved))
    finally:
        deleted = {each.path.rsplit("/", 1)[-1] for each in scene.exchanges if each.method == "DELETE"}
        assert deleted <= ids, f"{deleted - ids} was deleted without approval"


def told_of_plan(plan: Plan) -> str:
    return (
        render_plan(plan)
        + _json(plan_document(plan))
        + _told(plan.diagnostics)
        + dump_plan(plan).decode("utf-8")
    )


def _told_of(applied: Applied) -> str:
    exit_code(applied)
    report = ApplyReport(
        plan=applied.plan,
        results=tuple(applied.results),
        owed=tuple(applied.owed),
        diagnostics=tuple(applied.notices),
    )
    text = render_results(report) + _told(applied.notices)
    return text + _json(document(report)) + told_of_plan(applied.plan)


def _told(diagnostics: Sequence[Any]) -> str:
    return render(diagnostics, lambda file, line: None) + _json(diagnostic_documents(diagnostics))


def _json(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, default=str)


# --- rules that need more than one line ---


def _what_landed_is_not_sent(exchanges: Sequence[Exchange]) -> Iterable[str]:
    """In `lost-volumes` one landed; the other is sent again when the lists show no trace of it."""
    clean = 0
    for each in exchanges:
        if is_create(each) and b'"landed"' in each.body:
            yield f"{each.method} {each.path} was sent again although the first had its effect"
        if is_create(each) and b'"vanished"' in each.body and clean < 3:
            yield f"{each.method} {each.path} was sent again after {clean} lists that show no trace"
        clean += (
            each.path == "/v1/apps/shop/volumes"
            and each.method == "GET"
            and each.kind in ("", "extra", "odd")
            and each.given.status == 200
        )


SITUATIONS: Mapping[str, Situation] = {
    "plan": Situation("converged", _plan, (nothing_was_sent,), _NEUTRAL),
    "plan-lies": Situation("converged", _plan, (nothing_was_sent,), _FALSE),
    "plan-changes": Situation("converged", _plan_changes, (nothing_was_sent,), _FALSE),
    "plan-lost": Situation("lost", lambda scene, rng: _plan_lost(scene), (nothing_was_sent,), _FALSE),
    "drift": Situation("converged", _drift, (nothing_was_sent,), _FALSE),
    "show": Situation("converged", _show, (nothing_was_sent,), _FALSE),
    "resolve": Situation("lost", _resolve, (nothing_was_sent,), _FALSE),
    "apply-converged": Situation("converged", _apply_first, (nothing_was_sent,), _NEUTRAL),
    "apply-lies": Situation("converged", _apply_first, (nothing_was_made_or_removed,), _FALSE, _REPLIES),
    "apply-nothing": Situation("converged", _apply_nothing, (nothing_was_made,), _FALSE, _REPLIES),
    "apply-new": Situation("empty", _apply_first, (each_call_went_out_once,), {}, _REPLIES, FIRST),
    "apply-new-blind": Situation("empty", _apply_first, (each_call_went_out_once,), _SELDOM, _REPLIES, FIRST),
    "apply-changes": Situation(
        "converged", _apply_changes, (each_call_went_out_once,), {}, _REPLIES, SECOND, f"another {VALUE}"
    ),
    "apply-changes-blind": Situation(
        "converged", _apply_changes, (each_call_went_out_once,), _SELDOM, _REPLIES, SECOND, f"another {VALUE}"
    ),
    "apply-lost": Situation(
        "lost-volumes",
        _apply_lost,
        (each_call_went_out_once, _what_landed_is_not_sent),
        {"extra": 0.05, "odd": 0.1, "broken": 0.45},
        _REPLIES,
        LOST_VOLUMES,
    ),
}


async def _plan_lost(scene: Scene) -> str:
    return told_of_plan(await make_plan(scene.project, scene.desired(LOST)))


# --- one case ---


@dataclass
class Ground:
    """The templates, and what is told of the last case to whoever wants to keep it."""

    folder: Path
    counts: Counter[str]
    last: bytes = b""

    async def close(self) -> None:
        return None


async def prepare(folder: Path) -> Ground:
    await make_templates(folder)
    return Ground(folder, Counter())


async def check_seed(ground: Ground, seed: int) -> list[str]:
    """What one seed's answers bring about that they may not."""
    return await check_in(ground, list(SITUATIONS)[seed % len(SITUATIONS)], seed)


async def check_in(ground: Ground, name: str, seed: int) -> list[str]:
    situation = SITUATIONS[name]
    mutator = Mutator(str(seed), dict(situation.reads), dict(situation.replies))
    return await check(ground, name, seed, mutator)


async def check(ground: Ground, name: str, seed: int, mutations: Mutator | Recorded) -> list[str]:
    situation = SITUATIONS[name]
    rng = Random(seed)
    folder = ground.folder / "case"
    shutil.copytree(ground.folder / situation.template, folder)
    scene = open_scene(folder, mutations, extended=rng.random() < 0.5, password=situation.password)
    problems: list[str] = []
    try:
        problems += await _done(scene, situation.run, rng)
        exchanges = list(scene.exchanges)
        mutated = [each for each in exchanges if each.kind]
        ground.counts["mutated answers"] += len(mutated)
        ground.counts.update(f"mutated, {each.kind}" for each in mutated)
        ground.counts[f"in {name}"] += len(mutated)
        ground.last = recorded(name, seed, mutated)
        for rule in situation.rules:
            problems += rule(exchanges)
        believed = any(provably_no(each) and each.carried_out for each in exchanges if each.mutates)
        if situation.again and not believed:
            problems += await _again(scene, situation)
    finally:
        await scene.close()
        shutil.rmtree(folder)
    return problems


async def _again(scene: Scene, situation: Situation) -> list[str]:
    """The platform is itself again. What was made must be found, not made once more."""
    await scene.time.sleep(SETTLE_S)
    await leave(scene)
    again = open_scene(scene.folder, password=situation.password)
    try:
        problems = await _done(again, lambda scene, rng: _apply_again(scene, situation.again), Random(0))
        return problems + list(no_duplicates(again.world()))
    finally:
        await again.close()


async def _apply_again(scene: Scene, manifests: str) -> str:
    return _told_of(await scene.apply(manifests))


async def _done(scene: Scene, run: Callable[[Scene, Random], Awaitable[str]], rng: Random) -> list[str]:
    """What is wrong with what `run` says. A refusal is an answer; anything else that is raised is a bug."""
    try:
        told = await run(scene, rng)
    except ReconcilerError as failure:
        diagnostics = failure.diagnostics if isinstance(failure, Diagnosed) else ()
        told = failure.message + failure.help + _told(diagnostics)
    except Exception as failure:
        return ["".join(traceback.format_exception(failure)).strip()]
    return [*no_value_is_told(told, VALUE), *it_can_be_written(told)]


# --- regressions ---


def recorded(name: str, seed: int, mutated: Sequence[Exchange]) -> bytes:
    """One JSON document with every answer that was mutated, body and all."""
    answers = [
        {
            "request": [each.method, each.path, each.number],
            "kind": each.kind,
            "carried_out": each.carried_out,
            "status": each.given.status,
            "headers": [
                [key.decode("latin-1"), value.decode("latin-1")] for key, value in each.given.headers
            ],
            "body": base64.b64encode(each.given.body).decode(),
            "failure": each.given.failure,
        }
        for each in mutated
    ]
    return json.dumps({"situation": name, "seed": seed, "answers": answers}, indent=1).encode() + b"\n"


def replayed(document: bytes) -> tuple[str, int, Recorded]:
    """Situation, seed and answers of what `recorded` wrote."""
    read = json.loads(document)
    answers = {}
    for each in read["answers"]:
        method, path, number = each["request"]
        headers = tuple((key.encode("latin-1"), value.encode("latin-1")) for key, value in each["headers"])
        given = Given(each["status"], headers, base64.b64decode(each["body"]), each["failure"])
        answers[method, path, number] = each["kind"], each["carried_out"], given
    return read["situation"], read["seed"], Recorded(answers)
