"""One history as data: all that is wanted, and all that goes wrong. Nothing in it is drawn any more."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from pydantic import TypeAdapter

State = Literal["sqlite", "objects", "postgresql"]
StoreFault = Literal["answer lost", "request lost", "late", "refused", "slow", "unreachable", "restarted"]
Verb = Literal["apply", "save", "run_saved", "plan", "drift"]


@dataclass(slots=True)
class Fault:
    """What happens to one request. `kind`: see `faults.COURSES`; the rest is used as that says."""

    kind: str
    status: int = 503
    after_s: float = 0.0


@dataclass(slots=True)
class Edit:
    """What a person does to the platform, `at_s` after the round began.

    `name` in `app` (None: a cluster), the `pick`-th of those that exist then; `kind`: see `people.edit`.
    """

    kind: str
    name: str
    app: str | None = None
    pick: int = 0
    at_s: float = 0.0


@dataclass(slots=True)
class Moment:
    """The `nth` time (from 0) that a process passes `seam`; see `tally.SEAMS`."""

    seam: str
    nth: int = 0


@dataclass(slots=True)
class Spell:
    """From the moment `begins`, every request of a process suffers `fault`, for `lasts_s` seconds."""

    begins: Moment
    fault: Fault
    lasts_s: float


@dataclass(slots=True)
class Pause:
    """From the moment `begins` the process does nothing for `lasts_s` seconds, or only its loop does not."""

    begins: Moment
    lasts_s: float
    how: Literal["stopped", "hanging"] = "stopped"


@dataclass(slots=True)
class CutOff:
    """From the moment `begins`, a process does not reach the store that it shares for `lasts_s` seconds."""

    begins: Moment
    lasts_s: float


@dataclass(slots=True)
class Run:
    """One process. Faults are by the number of the mutation, read or commit that they hit, from 0.

    `spell`: outranks the faults of requests while it lasts. `commit_faults`: "before" loses the commit,
    "after" only its acknowledgement; `spool_fails`: the place kept for such outcomes is lost as well.

    In a store that is shared: `store_writes` and `store_reads` by number, `store_spell`; `skew_s`, by how
    much its wall clock is ahead, `drift`, by which part of a second its clocks go faster; `pause`.
    """

    verb: Verb = "apply"
    after_s: float = 0.0
    lock_timeout_s: float = 0.0
    approves: bool = True
    approves_deletes: bool = False
    mutation_faults: dict[int, Fault] = field(default_factory=dict)
    read_faults: dict[int, Fault] = field(default_factory=dict)
    commit_faults: dict[int, Literal["before", "after"]] = field(default_factory=dict)
    spool_fails: bool = False
    spell: Spell | None = None
    crash: Moment | None = None
    signal: Moment | None = None
    robbed: Moment | None = None
    store_writes: dict[int, StoreFault] = field(default_factory=dict)
    store_reads: dict[int, StoreFault] = field(default_factory=dict)
    store_spell: CutOff | None = None
    skew_s: float = 0.0
    drift: float = 0.0
    pause: Pause | None = None


@dataclass(slots=True)
class Round:
    """`pause_s` passes, then edits and runs begin. `secret` numbers the value that the environment holds."""

    manifests: list[dict[str, Any]]
    pause_s: float = 0.0
    secret: int = 0
    edits: list[Edit] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)


@dataclass(slots=True)
class Scenario:
    """`seed` gives ids and latencies; everything else stands here. `machines` run from the beginning.

    `state`: where it is kept.
    """

    seed: int
    rounds: list[Round]
    switches: dict[str, Any] = field(default_factory=dict)
    capabilities: list[str] = field(default_factory=list)
    machines: list[str] = field(default_factory=list)
    state: State = "sqlite"


_ADAPTER = TypeAdapter(Scenario)


def to_plain(scenario: Scenario) -> dict[str, Any]:
    """JSON values only, without what is left at its default."""
    return {
        "seed": scenario.seed,
        **({"state": scenario.state} if scenario.state != "sqlite" else {}),
        "switches": dict(scenario.switches),
        "capabilities": list(scenario.capabilities),
        "machines": list(scenario.machines),
        "rounds": [_without_defaults(each, Round([])) for each in scenario.rounds],
    }


def from_plain(plain: Any) -> Scenario:
    """Raises pydantic.ValidationError when `plain` is not a scenario."""
    return _ADAPTER.validate_python(plain)


def _without_defaults(value: Round, default: Round) -> dict[str, Any]:
    plain = {"manifests": value.manifests} | _changed(asdict(value), asdict(default))
    for name, of in (("runs", asdict(Run())), ("edits", {})):
        if name in plain:
            plain[name] = [_changed(each, of) for each in plain[name]]
    return plain


def _changed(value: dict[str, Any], default: dict[str, Any]) -> dict[str, Any]:
    return {name: item for name, item in value.items() if name not in default or item != default[name]}
