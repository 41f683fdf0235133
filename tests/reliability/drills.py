"""`python -m tests.reliability.drills`: drills are struck at every boundary, and the next one cleans up.

One drill of a cluster and one of a volume run as `reconcile drill`, struck by KILL, TERM or INT. Before the
next `reconcile drill`, `plan` has to name whatever is left, to change nothing, and to ask nobody; in some
cases `apply`, too. After it nothing scratch is on the platform or in the state. The platform's log has no
call about what is drilled, but for one restore a drill, and no delete but of scratch objects.
"""

import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from tests.cli.harness import MUTATIONS, Project, Sandbox, cluster, environment, serving, volume
from tests.forking import import_everything
from tests.reliability.kills.boundaries import trace_of
from tests.reliability.kills.case import SIGNALS, Case, Stage, points, strike, tried
from tests.reliability.kills.planted import DRILL_DEFECTS
from tests.reliability.kills.sample import every_case, sampled
from tests.reliability.kills.scenario import APP, CLOCK, Template
from tests.reliability.kills.verdict import judge_process, judge_victim, live_clusters, live_volumes
from tests.reliability.proof import side_by_side
from tests.reliability.shared import SERVERS, server
from tests.state.doubles import make_state

CLUSTER, VOLUME = "orders", "data"
DRILL = ("drill", f"RestoreDrill/{CLUSTER}", f"RestoreDrill/{VOLUME}", "--output", "json")
SCRATCH = "drill-"
UNSTRUCK = ""  # stands for the point of a run that nothing strikes
_MEASURED = ("storage_used_bytes", "storage_provisioned_bytes")  # they grow by themselves
_LISTS_LAG = 4  # so many lists: the plan's, and one of those that look for a lost restore
_FAILED = (0, 1)  # a drill may fail under faults; what it leaves is what counts

_RESTORES = ("/v1/postgres/*/restore", f"/v1/apps/{APP}/volumes")
_DELETES = ("/v1/postgres/*", f"/v1/apps/{APP}/volumes/*")
_LISTS = ("/v1/postgres", f"/v1/apps/{APP}/volumes")


def _restores_lost(sandbox: Sandbox) -> None:
    for path in _RESTORES:
        sandbox.fault("POST", path, "drop_after")


def _deletes_lost(sandbox: Sandbox) -> None:
    for path in _DELETES:
        sandbox.fault("DELETE", path, "drop_after")


def _lists_lag(sandbox: Sandbox) -> None:
    _restores_lost(sandbox)
    for path in _LISTS:
        sandbox.fault("GET", path, "stale_list", times=_LISTS_LAG)


APPLIED = "apply between"
TROUBLES: Mapping[str, Callable[[Sandbox], None]] = {
    "": lambda sandbox: None,
    APPLIED: lambda sandbox: None,
    "restores unanswered": _restores_lost,
    "deletes unanswered": _deletes_lost,
    "restores unanswered, lists lag": _lists_lag,
}


@dataclass(frozen=True, slots=True)
class Drills(Template):
    """A project with two drills, of a cluster with backups and a volume with a snapshot."""

    def environment(self, sandbox: Sandbox) -> dict[str, str]:
        return environment(sandbox.url, RECONCILE_CAPABILITIES="extended")


@dataclass(frozen=True, slots=True)
class Verdict:
    """`wrong`: what is, in words. `left`: how many scratch objects the struck run left."""

    case: Case
    trouble: str
    struck: bool
    wrong: tuple[str, ...] = ()
    left: int = 0

    def __str__(self) -> str:
        trouble = f" --trouble '{self.trouble}'" if self.trouble else ""
        return f"python -m tests.reliability.drills {self.case}{trouble}"


def prepared(root: Path) -> Drills:
    project_root = root / "project"
    (project_root / "manifests").mkdir(parents=True)
    make_state(project_root)
    project = Project(project_root)
    project.write("manifests: [manifests]\n", "reconcile.yaml")
    project.write(
        volume(APP, VOLUME)
        + cluster(CLUSTER)
        + _drill(CLUSTER, f"PostgresCluster/{CLUSTER}")
        + _drill(VOLUME, f"Volume/{APP}/{VOLUME}")
    )
    options = ("--clock", CLOCK, "--db", str(root / "sandbox.db"), "--switch", "daily_snapshots=off")
    with serving(*options, "--profile", "extended") as sandbox:
        project.env |= environment(sandbox.url, RECONCILE_CAPABILITIES="extended")
        sandbox.app(APP)
        project.apply(*project.creating(f"PostgresCluster/{CLUSTER}"))
        sandbox.call("POST", f"/v1/apps/{APP}/volumes/{sandbox.volume(APP)['id']}/snapshots")
        sandbox.advance(3600)  # both are done; reads of the new objects count
        world = sandbox.call("GET", "/_sandbox/world")
        seq = sandbox.call("GET", "/_sandbox/log")[-1]["seq"]
    return Drills(root, extended=True, world=world, seq=seq)


def _drill(name: str, of: str) -> str:
    kind = "apiVersion: reconciler/v1\nkind: RestoreDrill"
    return f"---\n{kind}\nmetadata: {{name: {name}}}\nspec: {{of: {of}}}\n"


def judged(trouble: str, case: Case, stage: Stage) -> Verdict:
    number, file = SIGNALS[case.signal], stage.root / "trace"
    TROUBLES[trouble](stage.sandbox)
    ran = strike(stage, case.point, number, file, DRILL)
    if case.point == UNSTRUCK:
        wrong = _told(judge_process("the drill", ran, _FAILED if trouble else [0]))
    elif case.point in trace_of(file):
        wrong = _told(judge_victim(ran, number, trace_of(file)))
    else:
        return Verdict(case, trouble, struck=False)
    left = len(_scratch(stage.world()))
    wrong += _between(stage, ["plan", "--output", "json"])
    if trouble == APPLIED:
        wrong += _between(stage, ["apply", "--auto-approve", "--output", "json"])
    wrong += _told(judge_process("the next drill", stage.run(DRILL), [0]))
    return Verdict(case, trouble, True, (*wrong, *_ended(stage)), left)


def _told(findings: Sequence[Any]) -> list[str]:
    return [str(finding) for finding in findings]


def _between(stage: Stage, verb: Sequence[str]) -> list[str]:
    """A verb that must name whatever was left, and must not touch it."""
    before = stage.log()[-1]["seq"]
    ran = stage.run(verb)
    wrong = _told(judge_process(f"{verb[0]} after it", ran, [0]))
    told = ran.out + ran.err if ran is not None else ""
    left = _scratch(stage.world()).values()
    wrong += [f"{verb[0]} does not name {name}" for name in left if name not in told]
    wrong += [f"{verb[0]} sent {entry['method']} {entry['path']}" for entry in _sent(stage.log(before))]
    changes = ran.json.get("changes", []) if ran is not None and ran.out else []
    return wrong + [
        f"{verb[0]} would {change['action']} {change['address']}"
        for change in changes
        if change["action"] not in ("retain", "noop")
    ]


def _ended(stage: Stage) -> Iterator[str]:
    """What is wrong in the world, the log and the state after everything."""
    world, known = stage.world(), stage.template.world
    for id, name in _scratch(world).items():
        yield f"{name} ({id}) is left on the platform"
    listing = stage.run(["state", "list", "--output", "json"])
    yield from _told(judge_process("state list", listing, [0]))
    for record in listing.json["records"] if listing is not None and listing.out else ():
        if SCRATCH in record["address"]:
            yield f"{record['address']} is left in the state"
    last = stage.run(["plan", "--detailed-exitcode", "--output", "json"])
    yield from _told(judge_process("the last plan", last, [0]))
    for part in ("clusters", "volumes"):
        (before,), after = known[part], {each["id"]: each for each in world[part]}
        if _lasting(before) != _lasting(after.get(before["id"], {})):
            yield f"{before['name']} is not as it was"
    yield from _log_of(stage, world)


def _log_of(stage: Stage, world: Mapping[str, Any]) -> Iterator[str]:
    (source,) = stage.template.world["clusters"]
    named = {each["id"]: each["name"] for part in ("clusters", "volumes") for each in world[part]}
    made = {id for id, name in named.items() if name.startswith(SCRATCH)}
    restores = {f"POST /v1/postgres/{source['id']}/restore", f"POST /v1/apps/{APP}/volumes"}
    deletes = {f"DELETE {path[:-1]}{id}" for path in _DELETES for id in made}
    sent = Counter(f"{entry['method']} {entry['path']}" for entry in _sent(stage.log(stage.template.seq)))
    for call, times in sent.items():
        if call not in restores | deletes:
            yield f"{call} was sent"
        elif call in restores and times > 2:
            yield f"{call} was sent {times} times by two runs"
    known = {each["id"] for part in ("clusters", "volumes") for each in stage.template.world[part]}
    for id in named.keys() - made - known:
        yield f"{named[id]} ({id}) was made, which is not a name of a drill"


def _sent(log: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [entry for entry in log if entry["method"] in MUTATIONS]


def _lasting(object: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in object.items() if name not in _MEASURED}


def _scratch(world: Mapping[str, Any]) -> dict[str, str]:
    """Names of the scratch objects that are there, by their ids."""
    live = {**live_clusters(world), **live_volumes(world)}
    return {id: each["name"] for id, each in live.items() if each["name"].startswith(SCRATCH)}


# --- the command ---


def _cases(reached: Sequence[str], sample: int | None, seed: int) -> list[tuple[Case, str]]:
    """Every point by every signal, and by KILL in every trouble; and every trouble without a kill.

    Of a sample of `sample`, each trouble has a quarter.
    """
    every = every_case(reached)
    killed = [case for case in every if case.signal == "KILL"]
    cases = [(case, "") for case in (every if sample is None else sampled(every, sample, seed))]
    for number, trouble in enumerate(filter(None, TROUBLES)):
        if trouble != APPLIED:
            cases.append((Case(UNSTRUCK, "KILL"), trouble))
        some = killed if sample is None else sampled(killed, sample // 4, seed + number)
        cases += [(case, trouble) for case in some]
    return cases


def _one(template: Drills, root: Path, numbered: tuple[int, tuple[Case, str]]) -> Verdict:
    number, (case, trouble) = numbered
    return tried(case, template, root / f"case-{number}", partial(judged, trouble))


def _verdicts(
    cases: Sequence[tuple[Case, str]], template: Drills, root: Path, jobs: int
) -> Iterator[Verdict]:
    return side_by_side(partial(_one, template, root), enumerate(cases), jobs)


def _defects_found(template: Drills, root: Path, jobs: int) -> int:
    """Print what showed each planted defect; 1 when one was not shown as it should be."""
    cases = [(Case(defect.point, defect.signal, name), "") for name, defect in DRILL_DEFECTS.items()]
    missed = 0
    for verdict in _verdicts(cases, template, root, jobs):
        name = verdict.case.planted
        shown = [text for text in verdict.wrong if DRILL_DEFECTS[name].shown in text]
        click.echo(f"{name:<28}{shown[0] if shown else f'NOT FOUND, only {verdict.wrong}'}")
        missed += not shown
    return 1 if missed else 0


@click.command()
@click.option("--sample", type=click.IntRange(1), help="So many of the cases without other troubles.")
@click.option("--seed", default=1, show_default=True, help="Of the sample.")
@click.option("--point", help="This point alone.")
@click.option("--signal", "signal_name", type=click.Choice(list(SIGNALS)), help="Only this signal.")
@click.option("--trouble", type=click.Choice(list(TROUBLES)), help="Only in this trouble.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1), help="Cases side by side.")
@click.option("--state", "wanted", default="", metavar="URL", help=f"As of kills: {', '.join(SERVERS)}, …")
@click.option("--defects", is_flag=True, help="Plant defects, and see that each is found.")
def command(
    sample: int | None,
    seed: int,
    point: str | None,
    signal_name: str | None,
    trouble: str | None,
    jobs: int,
    wanted: str,
    defects: bool,
) -> None:
    """Strike real drills at their boundaries, run again, and judge. Exits with 1 when anything is wrong."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    import_everything()
    began_s = time.monotonic()
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="drills-")))
        template = replace(prepared(root / "template"), server=server(wanted, stack))
        if defects:
            sys.exit(_defects_found(template, root, jobs))
        reached = points(template, root / "points", DRILL)
        cases = _cases(reached if point is None else [point], sample, seed)
        cases = [
            (case, named)
            for case, named in cases
            if signal_name in (None, case.signal) and trouble in (None, named)
        ]
        verdicts = []
        for verdict in _verdicts(cases, template, root, jobs):
            verdicts.append(verdict)
            if verdict.wrong:
                click.echo("\n    ".join([str(verdict), *verdict.wrong]))
    click.echo(_table(len(reached), verdicts, time.monotonic() - began_s))
    missed = sum(not verdict.struck for verdict in verdicts if not verdict.trouble)  # troubles go other ways
    sys.exit(1 if any(verdict.wrong for verdict in verdicts) or missed > max(2, 0.05 * len(verdicts)) else 0)


def _table(reached: int, verdicts: Sequence[Verdict], seconds: float) -> str:
    troubles = Counter(verdict.trouble for verdict in verdicts)
    rows = [
        ("points of two drills", reached),
        ("cases", len(verdicts)),
        *((f"  by {name}", sum(each.case.signal == name for each in verdicts)) for name in SIGNALS),
        *((f"  {name}", times) for name, times in troubles.items() if name),
        ("cases never reached", sum(not verdict.struck for verdict in verdicts)),
        ("cases that left a scratch object", sum(verdict.left > 0 for verdict in verdicts)),
        ("wrong", sum(bool(verdict.wrong) for verdict in verdicts)),
        ("seconds", round(seconds)),
    ]
    return "\n".join(f"{name:<40}{value:>6}" for name, value in rows)


if __name__ == "__main__":
    command()
