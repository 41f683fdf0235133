"""One case: a copy of the template, an apply struck at one point, runs until it is done, and the verdict."""

import json
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tests.cli.harness import Ran, Sandbox
from tests.reliability import shared
from tests.reliability.kills import victim
from tests.reliability.kills.boundaries import struck_at, trace_of
from tests.reliability.kills.processes import run_forked, sandboxed
from tests.reliability.kills.scenario import APPLY, CLOCK, Template
from tests.reliability.kills.verdict import (
    LOCKED,
    Ending,
    Finding,
    judge_process,
    judge_victim,
    judge_world,
    live_clusters,
    live_volumes,
)
from tests.reliability.shared import Place
from tests.state.doubles import move_platform

SIGNALS: Mapping[str, int] = {"KILL": signal.SIGKILL, "TERM": signal.SIGTERM, "INT": signal.SIGINT}
MOST_RUNS = 4  # that may follow the struck one until everything is done
MOST_TRIES = 3  # to reach a point: connections and pauses differ a little from run to run

_DONE, _DECIDE, _PENDING = 0, 3, 4
_QUESTION = re.compile(r"reconcile resolve (\S+) --adopt ID")


@dataclass(frozen=True, slots=True)
class Case:
    """The point and the signal. `planted`: a defect in all runs, to check the checker."""

    point: str
    signal: str
    planted: str = ""

    def __str__(self) -> str:
        return f"--point '{self.point}' --signal {self.signal}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`struck`: whether the point was reached, and after how many seconds the process ended then.

    `runs` followed; `decisions` were asked of a person.
    """

    case: Case
    struck: bool
    findings: tuple[Finding, ...] = ()
    runs: int = 0
    decisions: int = 0
    ended_after_s: float = 0.0


@dataclass
class Stage:
    """The processes of one case, in its directory."""

    root: Path
    project: Path
    sandbox: Sandbox
    template: Template
    planted: str
    place: Place | None = None  # of the state; None: the project's file
    _count: int = field(default=0)

    def run(self, arguments: Sequence[str], **more: str) -> Ran | None:
        self._count += 1
        env = self.template.environment(self.sandbox) | {"XDG_STATE_HOME": str(self.root / "home")} | more
        if self.planted:
            env["KILLS_PLANTED"] = self.planted
        if self.place is not None:
            env |= {"RECONCILE_STATE": self.place.url, **self.place.variables}
        name = f"{self._count}-{arguments[0]}"
        return run_forked(lambda: victim.run(list(arguments)), root=self.project, env=env, name=name)

    def world(self) -> Any:
        return self.sandbox.call("GET", "/_sandbox/world")

    def log(self, since: int = 0) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.sandbox.call("GET", f"/_sandbox/log?since={since}")
        return found


@contextmanager
def staged(template: Template, root: Path, planted: str = "", *, kept: Path | None = None) -> Iterator[Stage]:
    """`kept`: where to keep what the block leaves, once no process works on it any more."""
    project, db = template.copied(root)
    try:
        with sandboxed(db, CLOCK, template.profile) as sandbox:
            move_platform(project, sandbox.url)
            place = shared.carried_in(template.server, project) if template.server is not None else None
            try:
                yield Stage(root, project, sandbox, template, planted, place)
                if place is not None and kept is not None:
                    shared.carried_out(place, project)
            finally:
                if place is not None:
                    place.drop()
        if kept is not None:
            root.rename(kept)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def points(template: Template, root: Path, arguments: Sequence[str] = APPLY) -> list[str]:
    """The boundaries that an undisturbed run of a verb reaches, in order."""
    with staged(template, root) as stage:
        trace = root / "trace"
        ran = stage.run(arguments, KILLS_TRACE=str(trace), KILLS_SANDBOX=stage.sandbox.url)
        assert ran is not None
        assert ran.code in (_DONE, _DECIDE, _PENDING), f"{ran.out}\n{ran.err}"
        return trace_of(trace)


def killed(point: str, template: Template, root: Path) -> Template:
    """What a run of `template` leaves that is killed at `point`: the next run begins with it."""
    file = root / "killed"
    with staged(template, root / "first", kept=root / "left") as stage:
        strike(stage, point, signal.SIGKILL, file)
        assert point in trace_of(file), f"{point} is never reached"
    return replace(template, root=root / "left")


class Judged(Protocol):
    @property
    def struck(self) -> bool: ...


V = TypeVar("V", bound=Judged)


def tried(case: Case, template: Template, root: Path, judge: Callable[[Case, Stage], V]) -> V:
    """Run `case` in `root`, which must not exist; again while its point is not reached."""
    for _ in range(MOST_TRIES):
        with staged(template, root, case.planted) as stage:
            verdict = judge(case, stage)
        if verdict.struck:
            break
    return verdict


def judged(case: Case, stage: Stage) -> Verdict:
    number = SIGNALS[case.signal]
    file = stage.root / "trace"
    ran = strike(stage, case.point, number, file)
    trace = trace_of(file)
    if case.point not in trace:
        return Verdict(case, struck=False)
    ended_after_s = time.monotonic() - struck_at(trace)
    findings = judge_victim(ran, number, trace)
    runs, decisions = 0, 0
    for runs in range(1, MOST_RUNS + 1):  # noqa: B007 - counted for the report
        again = stage.run(APPLY)
        if again is None or again.code not in (_DECIDE, _PENDING):
            break
        if again.code == _DECIDE:
            decisions += 1
            findings += _answered(stage, again)
    findings += judge_process(f"run {runs} after it", again, [_DONE])
    if again is not None and again.code != LOCKED:
        findings += _looked_at(stage)
    return Verdict(case, True, tuple(findings), runs, decisions, ended_after_s)


def strike(
    stage: Stage, point: str, number: int, trace: Path, arguments: Sequence[str] = APPLY
) -> Ran | None:
    """Run a verb that is sent the signal `number` at `point`."""
    ran = stage.run(
        arguments,
        KILLS_TRACE=str(trace),
        KILLS_SANDBOX=stage.sandbox.url,
        KILLS_STRIKE=point,
        KILLS_SIGNAL=str(int(number)),
    )
    if stage.place is not None and number == signal.SIGKILL:
        stage.place.lease_over()
    return ran


def _looked_at(stage: Stage) -> list[Finding]:
    """The last runs, which only read, and what everything shows after them."""
    last = stage.log()[-1]["seq"]
    apply = stage.run(APPLY)
    later = stage.log(last)
    plan = stage.run(["plan", "--detailed-exitcode", "--output", "json"])
    listing = stage.run(["state", "list", "--output", "json"])
    findings = [
        *judge_process("the last apply", apply, [_DONE]),
        *judge_process("plan --detailed-exitcode", plan, [_DONE]),
        *judge_process("state list", listing, [_DONE]),
    ]
    ending = Ending(
        before=stage.template.world,
        after=stage.world(),
        log=stage.log(stage.template.seq),
        records=_part(listing, "records"),
        owed=_part(plan, "owed"),
        later=later,
        restarts=stage.template.extended,
    )
    return findings + judge_world(ending)


def _part(ran: Ran | None, name: str) -> Any:
    """A list from what it printed; [] where a failed run printed none, which is found by itself."""
    return ran.json.get(name, []) if ran is not None and ran.out else []


# --- the person who is asked ---


def _answered(stage: Stage, asking: Ran) -> list[Finding]:
    """Answer each question truthfully: by what the world shows and no record tracks."""
    findings = []
    for address in sorted(set(_QUESTION.findall(json.dumps(asking.json)))):
        listing = stage.run(["state", "list", "--output", "json"])
        findings += judge_process("state list", listing, [_DONE])
        tracked = {each["id"] for each in _part(listing, "records")}
        made = _made(stage.world(), address, tracked)
        if len(made) > 1:
            findings.append(Finding("duplicate", f"{address}: a person finds {', '.join(made)}"))
        answer = ["--adopt", made[0]] if made else ["--not-created", "--force"]
        told = stage.run(["resolve", address, *answer])
        findings += judge_process(f"resolve {address} {' '.join(answer)}", told, [_DONE])
    return findings


def _made(world: Mapping[str, Any], address: str, tracked: set[str]) -> list[str]:
    kind, _, name = address.rpartition("[")[0].partition("/") if "[" in address else address.partition("/")
    live = live_clusters(world) if kind == "PostgresCluster" else live_volumes(world)
    wanted = name.rpartition("/")[2]
    return sorted(id for id, each in live.items() if each["name"] == wanted and id not in tracked)
