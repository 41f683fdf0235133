"""Drawing a scenario from a seed: small histories, in which much goes wrong."""

import copy
from random import Random
from typing import Any

from reconciler.sandbox import switches
from tests.reliability.simulation.faults import (
    LAG_S,
    LATE_ABSOLUTE_S,
    LATE_CREATE_S,
    SPELLS,
    STALE_S,
    STATUSES,
    Channel,
    kinds_for,
)
from tests.reliability.simulation.people import MACHINE_EDITS, VOLUME_EDITS
from tests.reliability.simulation.scenario import (
    CutOff,
    Edit,
    Fault,
    Moment,
    Pause,
    Round,
    Run,
    Scenario,
    Spell,
    State,
    StoreFault,
    Verb,
)
from tests.reliability.simulation.tally import SEAMS

CAPABILITIES = (
    "postgres.list",
    "postgres.delete",
    "secrets.list",
    "secrets.delete",
    "machine.get",
    "machine.stop",
    "machine.restart",
)
PAUSES_S = (0.0, 0.0, 1.0, 20.0, 200.0, 4000.0)
# How the platform's own work ends: rarely badly.
KEPT = ("cluster_create", "cluster_outcome", "snapshot_outcome", "placement")
NUMBERS = {
    "read_lag_s": (0, 0, 4, 10),
    "zones_per_region": (5, 3),
    "suspending_s": (10, 10, 0, 40),
    "detach_lag_s": (0, 0, 20),
    "new_app_404_s": (0, 0, 0, 0, 0, 30),
    "auto_extend_gb": (0, 0, 0, 0, 2),
}
SKEW_S = 300.0
DRIFT = 0.01
STOPPED_S = (3.0, 25.0, 70.0, 100.0, 400.0)
STORE_FAULTS: tuple[StoreFault, ...] = ("answer lost", "request lost", "late", "refused", "slow")
READ_FAULTS: tuple[StoreFault, ...] = ("answer lost", "request lost", "slow", "slow")
PAUSED_AT = (
    "check",
    "mutation:before",
    "mutation:before",
    "mutation:sent",
    "mutation:after",
    "commit:before",
    "commit:after",
    "lease:before",
    "lease:after",
    "release:before",
    "store:read",
    "store:write",
    "store:write",
    "sleep",
    "read:after",
)
DAY_S = 90000.0  # over a day, in which the platform does what it does daily

Wanted = dict[str, dict[str, Any]]


def draw(seed: int, state: State = "sqlite") -> Scenario:
    """The scenario of `seed` on such a state: always the same one."""
    rng = Random(seed)
    wanted = _first_wishes(rng)
    rounds: list[Round] = []
    for number in range(rng.choice((3, 4, 5, 6))):
        passing = _edit_wishes(rng, wanted) if number else {}
        saved = bool(rounds) and any(run.verb == "save" for run in rounds[-1].runs)
        rounds.append(_round(rng, wanted, passing, saved=saved))
    scenario = Scenario(seed, rounds, _switches(rng), _capabilities(rng))
    # Drawn apart, so that the rest of a seed's history is the same with and without.
    _machines(Random(f"machines {seed}"), scenario)
    if "machine.stop" in scenario.capabilities:
        _stopped(Random(f"stopped {seed}"), scenario)
    _spells(Random(f"spells {seed}"), scenario)
    _moves(Random(f"moves {seed}"), scenario)
    if state != "sqlite":
        scenario.state = state
        _runners(Random(f"runners {seed}"), scenario)
    if state == "postgresql":
        _servers(Random(f"servers {seed}"), scenario)
    return scenario


def _switches(rng: Random) -> dict[str, Any]:
    chosen: dict[str, Any] = {}
    for name, switch in switches.SWITCHES.items():
        if switch.allowed and rng.random() < (0.08 if name in KEPT else 0.4):
            chosen[name] = rng.choice(switch.allowed)
    return chosen | {name: rng.choice(values) for name, values in NUMBERS.items()}


def _capabilities(rng: Random) -> list[str]:
    if rng.random() < 0.5:
        return []
    return [name for name in CAPABILITIES if rng.random() < 0.6]


# --- machines ---


def _machines(rng: Random, scenario: Scenario) -> None:
    """Machines whose power is wanted, that hold volumes, and that people handle meanwhile."""
    if rng.random() < 0.1:
        rng.choice(scenario.rounds).pause_s = DAY_S
    if rng.random() < 0.6:
        return
    scenario.machines = ["m1", "m2"][: rng.choice((1, 1, 2))]
    power = {id: rng.choice(("started", "suspended", "suspended")) for id in scenario.machines}
    restart = rng.choice(({}, {"restart": "auto"}, {"restart": "auto"}))
    together = rng.random() < 0.4  # machines hold several volumes, which grow at once
    if together and "machine.restart" not in scenario.capabilities:
        scenario.capabilities.append("machine.restart")
    held, grown_gb = False, 0
    for each in scenario.rounds:
        grown_gb += rng.choice((0, 5)) if together else 0
        for document in each.manifests:
            if document["kind"] == "Volume" and restart:
                document["lifecycle"] = document.get("lifecycle", {}) | restart
            if together and isinstance(document["spec"].get("size_gb"), int):
                document["spec"] |= {"count": 2, "size_gb": document["spec"]["size_gb"] + grown_gb}
        for id in scenario.machines:
            if rng.random() < 0.4:
                power[id] = "suspended" if power[id] == "started" else "started"
            if rng.random() < 0.85:
                wish = rng.choice((power[id],) * 9 + (None,))
                spec = {"id": id} if wish is None else {"id": id, "power": wish}
                each.manifests.append(_document("Machine", id, "shop", spec))
            if rng.random() < 0.2:
                kind = rng.choice(tuple(MACHINE_EDITS))
                each.edits.append(Edit(kind, id, "shop", 0, rng.choice((0.0, 0.1, 0.3, 2.0, 60.0))))
        if together or rng.random() < (0.3 if held else 0.7):
            name = rng.choice(("data", "data", "copy"))
            at_s = rng.choice((0.0, 0.0, 2.0, 150.0))
            each.edits.append(Edit("mount", name, "shop", rng.randrange(len(scenario.machines)), at_s))
            held = True


def _stopped(rng: Random, scenario: Scenario) -> None:
    """Some machines are wanted stopped for some rounds, in place of what was drawn."""
    stopped: dict[str, bool] = {}
    for each in scenario.rounds:
        for document in each.manifests:
            if document["kind"] == "Machine" and "power" in document["spec"]:
                id = document["spec"]["id"]
                stopped[id] = stopped.get(id, False) != (rng.random() < 0.4)
                if stopped[id]:
                    document["spec"]["power"] = "stopped"


def _moves(rng: Random, scenario: Scenario) -> None:
    """Machines that hold volumes are replaced, also between the check of a plan and its calls."""
    if not scenario.machines or rng.random() < 0.4:
        return
    for each in scenario.rounds[1:]:
        for _ in range(rng.choice((0, 1, 1, 2))):
            begins_s = min((run.after_s for run in each.runs), default=0.0)
            at_s = begins_s + rng.choice((rng.uniform(0.0, 0.4), rng.uniform(0.0, 20.0)))
            kind, name = rng.choice(("move", "move", "mount")), rng.choice(("data", "data", "copy"))
            each.edits.append(Edit(kind, name, "shop", rng.randrange(3), at_s))


# --- spells ---


def _spells(rng: Random, scenario: Scenario) -> None:
    """A platform that answers nothing of use for minutes, from a moment on that may be just the wrong one."""
    for run in [run for each in scenario.rounds for run in each.runs if run.verb != "plan"]:
        if rng.random() < 0.1:
            kind = rng.choice(SPELLS)
            seam = rng.choice(("mutation:before", "mutation:sent", "mutation:sent", "read:before"))
            begins = Moment(seam, rng.randrange(3 if seam.startswith("mutation") else 12))
            fault = Fault(kind, rng.choice(STATUSES.get(kind, (503,))))
            run.spell = Spell(begins, fault, rng.choice((20.0, 250.0, 700.0)))


# --- runners that share a state ---


def _runners(rng: Random, scenario: Scenario) -> None:
    """More of them at once, each on a machine of its own, with stops, and a store that they reach badly."""
    for each in scenario.rounds:
        while len(each.runs) < 4 and rng.random() < 0.35:
            rival = Run(after_s=rng.choice((0.0, 0.1, 3.0, 60.0, 100.0)), approves_deletes=rng.random() < 0.5)
            each.runs.append(rival)
        if rng.random() < 0.12:  # one stops with its call in hand, and another takes over
            moment = Moment("mutation:before", rng.choice((0, 0, 1, 2)))
            each.runs[0].pause = Pause(moment, rng.choice((100.0, 400.0, 400.0)))
            each.runs[1:] = [Run(after_s=rng.choice((70.0, 100.0)), lock_timeout_s=200.0)]
        for run in each.runs:
            run.lock_timeout_s = rng.choice((run.lock_timeout_s, 0.0, 200.0))
            run.skew_s = rng.choice((0.0, rng.uniform(-SKEW_S, SKEW_S), -SKEW_S, SKEW_S))
            run.drift = rng.uniform(-DRIFT, DRIFT)
            _reach_badly(rng, run)
            if run.pause is None and rng.random() < 0.3:
                begins = Moment(rng.choice(PAUSED_AT), rng.choice((0, 0, 1, 2, 4)))
                lasts_s = rng.choice(STOPPED_S)
                run.pause = Pause(begins, lasts_s, rng.choice(("stopped", "stopped", "hanging")))


def _reach_badly(rng: Random, run: Run) -> None:
    if rng.random() < 0.5:
        run.store_writes = {n: rng.choice(STORE_FAULTS) for n in range(20) if rng.random() < 0.15}
        run.store_reads = {n: "unreachable" for n in range(40) if rng.random() < 0.03}
    if rng.random() < 0.12:
        begins = Moment(rng.choice(PAUSED_AT), rng.randrange(6))
        run.store_spell = CutOff(begins, rng.choice((5.0, 45.0, 70.0, 200.0)))
    if run.crash is None and rng.random() < 0.1:
        run.crash = Moment(rng.choice(("store:read", "store:write")), rng.randrange(20))


def _servers(rng: Random, scenario: Scenario) -> None:
    """A server that is restarted, and processes that die between what it did and its answer."""
    for run in [run for each in scenario.rounds for run in each.runs]:
        if rng.random() < 0.15:
            run.store_writes[rng.randrange(25)] = "restarted"
        if rng.random() < 0.4:
            run.store_reads |= {n: rng.choice(READ_FAULTS) for n in range(60) if rng.random() < 0.06}
        if run.crash is None and rng.random() < 0.1:
            run.crash = Moment("store:answered", rng.randrange(40))
        if run.pause is not None and rng.random() < 0.3:
            run.pause.begins = Moment(rng.choice(("store:answered", "store:write")), rng.randrange(25))


# --- manifests ---


def _first_wishes(rng: Random) -> Wanted:
    wanted: Wanted = {}
    _add(rng, wanted, "data")
    for name, chance in (
        ("copy", 0.2),
        ("logs", 0.2),
        ("orders", 0.3),
        ("URL", 0.5),
        ("TOKEN", 0.35),
        ("keep", 0.25),
    ):
        if rng.random() < chance and len(wanted) < 4:
            _add(rng, wanted, name)
    return wanted


def _add(rng: Random, wanted: Wanted, name: str) -> None:
    """Wish for `name` as well, where what it refers to is there."""
    if name in ("data", "logs"):
        wanted[name] = _volume(rng, name, "shop" if name == "data" else "blog")
    elif name == "copy" and "data" in wanted:
        wanted[name] = _document("Volume", name, "shop", {"region": "ams", "from": {"volume": "data"}})
    elif name == "orders":
        spec: dict[str, Any] = {"org_slug": "personal", "plan": "starter", "region": "ams"}
        wanted[name] = _document("PostgresCluster", name, None, spec)
    elif name == "URL" and "orders" in wanted:
        template = "postgres://app:${env:PASSWORD}@${PostgresCluster/orders:endpoints.primary.pooler.host}"
        wanted[name] = _document("Secret", name, "shop", {"value_from": {"template": template}})
    elif name == "TOKEN":
        wanted[name] = _document("Secret", name, "shop", {"value_from": {"env": "PASSWORD"}})
    elif name == "keep":
        spec = {"selector": {}, "snapshot_max_age_h": rng.choice((1, 24)), "snapshot_retention": 9}
        wanted[name] = _document("RetentionPolicy", name, None, spec)


def _document(kind: str, name: str, app: str | None, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name} if app is None else {"name": name, "app": app}
    return {"apiVersion": "reconciler/v1", "kind": kind, "metadata": metadata, "spec": spec}


def _volume(rng: Random, name: str, app: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"region": "ams", "size_gb": rng.choice((10, 10, 10, {"min": 10, "max": 20}))}
    if rng.random() < 0.25:
        spec["count"] = 2
    if rng.random() < 0.4:
        spec["snapshot_retention"] = rng.choice((7, 14))
    document = _document("Volume", name, app, spec)
    lifecycle: dict[str, Any] = {}
    if rng.random() < 0.55:
        lifecycle["deletion"] = "delete"
    if rng.random() < 0.4:
        lifecycle["snapshot_before"] = rng.choice(([], ["extend"], ["extend", "delete"]))
    if rng.random() < 0.3:
        lifecycle["restart"] = "auto"
    if lifecycle:
        document["lifecycle"] = lifecycle
    return document


def _edit_wishes(rng: Random, wanted: Wanted) -> Wanted:
    """Change `wanted`, and give back changes that last for one round only: the refused ones."""
    volumes = [name for name, document in wanted.items() if document["kind"] == "Volume"]
    for _ in range(rng.choice((0, 1, 1, 2))):
        choice = rng.random()
        volume = wanted[rng.choice(volumes)]["spec"] if volumes else {}
        if choice < 0.35 and "size_gb" in volume:
            volume["size_gb"] = _grown(volume["size_gb"])
            if rng.random() < 0.5:
                volume["snapshot_retention"] = rng.choice((3, 21, 30))
        elif choice < 0.5 and volume:
            volume["snapshot_retention"] = rng.choice((3, 21, 30))
        elif choice < 0.6 and "size_gb" in volume:
            volume["count"] = 3 - volume.get("count", 1)
        elif choice < 0.8:
            _remove(rng, wanted)
            volumes = [name for name in volumes if name in wanted]
        else:
            _add(rng, wanted, rng.choice(("data", "copy", "logs", "orders", "URL", "TOKEN", "keep")))
            volumes = [name for name, document in wanted.items() if document["kind"] == "Volume"]
    return _refused_wishes(rng, wanted)


def _grown(size: Any) -> Any:
    return {"min": size["max"], "max": size["max"] + 10} if isinstance(size, dict) else size + 5


def _remove(rng: Random, wanted: Wanted) -> None:
    if not wanted:
        return
    name = rng.choice(sorted(wanted))
    del wanted[name]
    for referring, to in (("copy", "data"), ("URL", "orders")):
        if name == to:
            wanted.pop(referring, None)


def _refused_wishes(rng: Random, wanted: Wanted) -> Wanted:
    passing: Wanted = {}
    if rng.random() < 0.06:
        for name, document in wanted.items():
            changed = copy.deepcopy(document)
            if document["kind"] == "PostgresCluster":
                changed["spec"]["plan"] = "launch"
            elif document["kind"] == "Volume" and "size_gb" in document["spec"]:
                changed["spec"]["size_gb"] = 2
            passing[name] = changed
    return passing


# --- what happens in a round ---


def _round(rng: Random, wanted: Wanted, passing: Wanted, *, saved: bool) -> Round:
    """`saved`: a plan was saved in the round before, and may be run now."""
    runs = [_run(rng)]
    if saved and rng.random() < 0.6:
        runs[0].verb, runs[0].approves_deletes = "run_saved", True
    edits = [_edit(rng) for _ in range(rng.choice((0, 0, 0, 1, 2)))]
    if runs[0].verb == "run_saved" and rng.random() < 0.4:
        edits.append(Edit(rng.choice(("grow", "retention", "attach")), "data", "shop", rng.randrange(2)))
    while len(runs) < 3 and rng.random() < (0.05 if runs[0].verb == "save" else 0.22):
        runs.append(_run(rng))
    return Round(
        manifests=copy.deepcopy(list((wanted | passing).values())),
        pause_s=rng.choice(PAUSES_S),
        secret=rng.choice((0, 0, 1)),
        edits=edits,
        runs=runs,
    )


def _edit(rng: Random) -> Edit:
    at_s = rng.choice((0.0, 0.0, 0.2, 2.0, 60.0, 150.0)) * (0.5 + rng.random())
    if rng.random() < 0.07:
        return Edit("delete", "orders", None, 0, at_s)
    name, app = rng.choice((("data", "shop"), ("data", "shop"), ("copy", "shop"), ("logs", "blog")))
    kind = rng.choice(("twin", "twin", "held_twin", "attach", *VOLUME_EDITS))
    return Edit(kind, name, app, rng.randrange(3), at_s)


def _run(rng: Random) -> Run:
    verb: Verb = rng.choices(("apply", "save", "run_saved", "plan", "drift"), (76, 13, 4, 4, 3))[0]
    run = Run(
        verb=verb,
        after_s=rng.choice((0.0, 0.0, 0.3, 3.0)),
        lock_timeout_s=rng.choice((0.0, 60.0)),
        approves=rng.random() < 0.96,
        approves_deletes=rng.random() < 0.65,
    )
    if rng.random() < 0.7:
        run.mutation_faults = {n: _fault(rng, "mutation") for n in range(5) if rng.random() < 0.4}
        run.read_faults = {n: _fault(rng, "read") for n in range(12) if rng.random() < 0.1}
        if rng.random() < 0.12:
            run.commit_faults = {rng.randrange(7): rng.choice(("before", "after"))}
            run.spool_fails = rng.random() < 0.3
        if rng.random() < 0.35:
            seam = rng.choice(SEAMS)
            run.crash = Moment(seam, rng.randrange(5 if seam != "sleep" else 9))
        elif rng.random() < 0.12:
            run.signal = Moment(
                rng.choice(("mutation:sent", "commit:after", "sleep", "mutation:after")), rng.randrange(4)
            )
        elif rng.random() < 0.08:
            run.robbed = Moment(
                rng.choice(("commit:after", "mutation:effect", "woken", "read:after")), rng.randrange(4)
            )
    return run


def _fault(rng: Random, channel: Channel) -> Fault:
    kind = "stale_list" if channel == "read" and rng.random() < 0.3 else rng.choice(kinds_for(channel))
    status = rng.choice(STATUSES[kind]) if kind in STATUSES else 503
    if kind.startswith("late"):
        # Beyond the shorter window only creates may be late: see `network`.
        after_s = rng.choice((LATE_ABSOLUTE_S, LATE_CREATE_S)) * rng.random()
    elif kind.startswith("hang"):
        after_s = 40.0
    elif kind == "stale_list":
        after_s = rng.choice((STALE_S, LAG_S))
    elif kind == "delay":
        after_s = rng.choice((2.0, 12.0, 25.0))
    else:
        after_s = 0.0
    return Fault(kind, status, round(after_s, 3))
