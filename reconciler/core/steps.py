"""Calls as data: everything that apply may send is one of these values before it is sent.

A step may need a value that only an earlier answer gives (`OutputRef`), or a
secret that is read at the moment of sending (`SecretRef`); both print as
templates. A plan therefore shows, stores and runs the same thing.
"""

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.core.context import Context
from reconciler.core.diagnostics import Diagnostic
from reconciler.core.model import SENSITIVE, Action, Address, Change, Lifecycle, Owed
from reconciler.core.saved import Digest, Saved
from reconciler.core.wire import Shape

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

PLATFORM = "platform"  # the service that most calls are for; others go by the name of their ExtensionProvider


class OutputRef(Saved, frozen=True):
    """A value from an answer. `source` is an address (the object's latest known fields)
    or a step id (that call's raw reply); `path` is dotted: `endpoints.primary.pooler.host`.
    `or_kept`: in `StepEffect.applied`, a value that the answer lacks leaves what the record holds.
    """

    source: str
    path: str
    or_kept: bool = False

    def __str__(self) -> str:
        return f"${{{self.source}:{self.path}}}"


# When the apply that sends the call began, in UTC: for what a record keeps.
RUN_BEGAN = OutputRef("run", "began_at", or_kept=True)


class SecretRef(Struct, frozen=True):
    """A secret value, resolved when it is sent. A record stores its keyed fingerprint.

    `env`: name of a variable; `file`: a path; `template`: `parts`, joined; `each`: the value of the key that
    a step with `for_each` is at; `age`: a path, or the encrypted text itself; `sops`: a path, and in `parts`
    the way to the value as sops writes it (none: the whole file); `exec`: `parts` are the argv.
    Paths are relative to the project's root. `timeout_s`: of `sops` and `exec`; 0: the usual one.
    """

    source: Literal["env", "file", "template", "each", "age", "sops", "exec"]
    name: str = ""
    parts: "tuple[str | OutputRef | SecretRef, ...]" = ()
    timeout_s: int = 0

    def __repr__(self) -> str:
        return SENSITIVE

    def variables(self) -> Iterator[str]:
        """The variables of the environment that the value is made of."""
        if self.source == "env":
            yield self.name
        for part in self.parts:
            if isinstance(part, SecretRef):
                yield from part.variables()


class Template(Saved, frozen=True):
    """Text with values from earlier answers in it, such as a path with a new object's id.

    The source `state` is this program's own: its `lineage` is known once the state exists.
    """

    parts: tuple[str | OutputRef, ...]

    def __str__(self) -> str:
        return "".join(map(str, self.parts))


class Read(Saved, frozen=True):
    """One GET of `service`. `shape`: what its answer holds.

    `sensitive`: the answer may hold a secret value, so only its fields known to be harmless are kept.
    """

    path: str | Template
    shape: Shape
    service: str = PLATFORM
    sensitive: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """One request to `service` (`PLATFORM`, or a provider's name).

    `sensitive`: as for a Read. A call whose body holds a SecretRef always is. The body is not part of the
    text of a Call: when it is sent, the values stand in it.
    """

    method: Method
    path: str | Template
    body: Mapping[str, Any] | None = dataclasses.field(default=None, repr=False)
    service: str = PLATFORM
    sensitive: bool = False

    def __post_init__(self) -> None:
        if not self.sensitive and _holds_secret(self.body):
            object.__setattr__(self, "sensitive", True)


def _holds_secret(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_holds_secret, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_holds_secret, value))
    return isinstance(value, SecretRef)


class Condition(Saved, frozen=True):
    """True of an object whose `field` is one of `any_of`, or at least `at_least`; `fails` end the wait."""

    field: str
    any_of: tuple[Any, ...] = ()
    at_least: int | None = None
    fails: tuple[Any, ...] = ()


class Wait(Saved, frozen=True):
    """After the call, read until the condition holds.

    `item`: the id of the object in a list answer; `OutputRef` when the reply names it. When the
    reply names none, the newest item that is not in the step's baseline counts.
    `reply_path`: where in the call's own reply the object stands, if that reply may already
    satisfy the condition ("" = the whole reply, None = never trust the reply).
    `or_gone`: an object that is not there any more ends the wait, too.
    `applied`: what the record holds once the condition held, and `kept`: the fields that it then takes from
    the object.
    `every_s`: seconds between two reads; 0: short at first, then longer.
    `timed`: the record then holds how long it took (`READY_AFTER`), where somebody saw it.
    """

    read: Read
    until: Condition
    timeout_s: int
    item: str | OutputRef | None = None
    reply_path: str | None = None
    or_gone: bool = False
    applied: Mapping[str, Any] = field(default_factory=dict)
    kept: tuple[str, ...] = ()
    every_s: float = 0.0
    timed: bool = False


class ForEach(Saved, frozen=True):
    """A step that stands for one call a key of a mapping from text to secret text, which an answer brings.

    `over`: that mapping. In the path, `EACH_KEY` stands for the key; in the body, `EACH_VALUE` for the value.
    `pattern`: what a key must match. `taken`: keys that belong to other addresses, which the call would
    overwrite: then, as with an unfit key or value, none of the calls is sent.
    `allowed`, `never`: patterns of the keys that may be set ("": any), and of those that nothing may set.
    `ignored`: likewise of those that are passed over, whatever they are ("": none).
    `keep`: the record's field `keep + key` holds the keyed fingerprint of what was sent; a value whose
    fingerprint stands there is not sent again.
    `again`: an answer without the mapping came before the values were there: its call is made again, once.
    `applied`: what the record holds once all are done; `if_none`: likewise if the answer holds no mapping
    at all (None: then the step fails).
    """

    over: OutputRef
    pattern: str
    keep: str
    taken: Mapping[str, str] = field(default_factory=dict)
    again: bool = False
    applied: Mapping[str, Any] = field(default_factory=dict)
    if_none: Mapping[str, Any] | None = None
    allowed: str = ""
    never: str = ""
    ignored: str = ""


EACH_KEY = OutputRef("each", "key")
EACH_VALUE = SecretRef("each")


class Owes(Saved, frozen=True):
    """The reply's boolean at `when` says whether `work` is now owed; without an answer, this is unknown.

    `machine`: where the reply names the machine that owes it.
    """

    work: Literal["restart"]
    when: str
    because: str
    machine: str


class StepEffect(Saved, frozen=True):
    """What the success of a call means.

    `applied`: what the record then holds (values may be OutputRef and SecretRef).
    `id_path`: dotted path of the object's id in the reply; a 2xx without it is UNKNOWN. None: no id is due.
    `known_id`: the new object's id if no reply contains it, because the name is the id.
    `object_path`: dotted path of the object in the reply, whose fields later steps may refer to.
    `accepts`: refusals that mean success, by class (services.outcome).
    `removes`: the object is gone and its record with it.
    """

    applied: Mapping[str, Any] = field(default_factory=dict)
    id_path: str | None = None
    known_id: str = ""
    object_path: str | None = None
    accepts: tuple[str, ...] = ()
    removes: bool = False
    owes: Owes | None = None


class IfOwed(Saved, frozen=True):
    """Sent only if `machine` still owes a restart. `settles`: the restart is done with this call."""

    machine: str
    settles: bool = False


class UnlessRecorded(Saved, frozen=True):
    """Not sent if the record's field `field` already equals the one in `StepEffect.applied`."""

    field: str


class Already(Saved, frozen=True):
    """A refusal means done if `wait` holds, because the requested state is already reached."""

    wait: Wait


Guard = (
    IfOwed | UnlessRecorded | Already
)  # conditions under which a planned call is not needed: at most one of them


class Ask(Saved, frozen=True):
    """After a lost reply, a person decides."""

    how: Literal["ask"] = "ask"


class Repeat(Saved, frozen=True):
    """After a lost reply the call is sent again: it sets an absolute value.

    `own_id`: the field of `StepEffect.applied` with an id that the call itself gives the object: the record
    goes by it while no answer has told another, so that a lost reply leaves a record.
    """

    own_id: str = ""
    how: Literal["repeat"] = "repeat"


FOUND_ID = OutputRef("found", "id")


class Find(Saved, frozen=True):
    """After a lost reply, the created object is looked up in `read`, by equal `match` fields and a baseline.

    `unattached`: fields that must be empty for the object to be ours to take. `grows`: fields that never
    become less than what was sent. `keep`: the field of the record that keeps the id of what is found, where
    it is not the record's own object. `one`: shows what was found by its id (`FOUND_ID`): a list may lag
    behind.
    """

    read: Read
    match: Mapping[str, Any] = field(default_factory=dict)
    unattached: tuple[str, ...] = ()
    grows: tuple[str, ...] = ()
    keep: str = ""
    one: Read | None = None
    how: Literal["find"] = "find"


Recovery = Ask | Repeat | Find


class Step(Saved, frozen=True):
    """One call of the plan, and what its outcome means. Kinds make them with `kinds.steps`.

    A GET is not sent by itself: such a step only waits.
    `after`: ids of steps that must be done before.
    `for_each`: not one call, but one for each key of an answer.
    `lane`: steps of one lane run one after another, whatever the outcome of the previous one.
    `note`: added to the result when the step is done; `if_refused`: added to a refusal.
    `uses`: of budgets, besides the call itself (`core.uses`).
    """

    id: str
    address: Address
    call: Call
    after: tuple[str, ...] = ()
    effect: StepEffect = StepEffect()
    guard: Guard | None = None
    recovery: Recovery = Ask()
    wait: Wait | None = None
    for_each: ForEach | None = None
    lane: str = ""
    note: str = ""
    if_refused: str = ""
    uses: Mapping[str, Any] = field(default_factory=dict)

    @property
    def mutates(self) -> bool:
        """Whether the step sends a call that changes something."""
        return self.call.method != "GET"

    @property
    def find(self) -> Find | None:
        """Where the object of a lost reply is looked up; None if it is not."""
        return self.recovery if isinstance(self.recovery, Find) else None

    @property
    def if_owed(self) -> IfOwed | None:
        return self.guard if isinstance(self.guard, IfOwed) else None

    def replaced(self, applied: Mapping[str, Any], **fields: Any) -> "Step":
        """This step with another `StepEffect.applied`, and other `fields`."""
        return replace(self, effect=replace(self.effect, applied=applied), **fields)


class Expectation(Saved, frozen=True):
    """What must be unchanged before apply sends anything for `address`.

    `fields` of the object `id` (or, without an id, the ids of all present objects equal in
    `match`) are digested into `digest`. `serial` is the record's, 0 for none.
    """

    address: Address
    read: Read | None
    id: str | None
    match: Mapping[str, Any]
    fields: tuple[str, ...]
    digest: str
    serial: int


class Binding(Saved, frozen=True):
    """What the record stores about the resource besides its fields; written with the first outcome.

    `applied` is for a change that sends nothing (an adoption, a live object that already equals).
    `settles`: earlier obligations are not owed any more. `confirms`: its id is not inferred any more.
    """

    address: Address
    scope: str
    lifecycle: Lifecycle
    source: str
    id: str | None = None
    applied: Mapping[str, Any] = field(default_factory=dict)
    settles: bool = False
    confirms: bool = False


class Move(Saved, frozen=True):
    """A record that gets another address, without a call. `serial` is the record's, as for an Expectation."""

    source: Address
    target: Address
    id: str
    serial: int


class Loosened(Saved, frozen=True):
    """An objective that asks for less than at the last apply, for which no call is sent. None: it is gone."""

    address: Address
    objective: str
    before: int
    after: int | None


class ManifestSet(Saved, frozen=True):
    """Which manifests were loaded, and a digest of their content.

    `paths`: as given, from the project's root; empty for the configured ones. `ref`: the git revision that
    they were read at; "" for the working tree. `digest`: of all resources; "" where nobody took it.
    `targets`: the addresses that the plan is about, with what they need; empty for all.
    """

    paths: tuple[str, ...] = ()
    ref: str = ""
    digest: Digest = field(default_factory=Digest)
    targets: tuple[str, ...] = ()


class Plan(Saved, frozen=True):
    """Everything that one apply will do.

    `changes` omits resources that need nothing, which `unchanged` counts, and resources that are declared or
    recorded but not part of the plan, which `outside` counts.
    `inputs`: existing objects whose fields steps refer to (address, read), read again by apply.
    `providers`: where each extension provider is that calls go to, by its name.
    `moves`: carried out before anything else; all other parts speak of the new addresses.
    `context`: what it is about, and when it was made. `manifests`: what it was made from.
    `unread`: the secrets whose source could not be read where it was made.
    `loosened`: objectives that it weakens, as far as a rule asks people about that.
    """

    id: str
    context: Context
    changes: tuple[Change, ...]
    steps: tuple[Step, ...]
    expectations: tuple[Expectation, ...]
    bindings: tuple[Binding, ...]
    owed: tuple[Owed, ...]
    diagnostics: tuple[Diagnostic, ...]
    inputs: tuple[tuple[str, Read], ...] = ()
    unchanged: int = 0
    outside: int = 0
    providers: Mapping[str, str] = field(default_factory=dict)
    moves: tuple[Move, ...] = ()
    manifests: ManifestSet = field(default_factory=ManifestSet)
    unread: tuple[Address, ...] = ()
    loosened: tuple[Loosened, ...] = ()

    @property
    def deletes(self) -> tuple[Address, ...]:
        """What it would delete. What a call does decides, not only what its change says."""
        said = [change.address for change in self.changes if change.action is Action.DELETE]
        sent = [step.address for step in self.steps if step.call.method == "DELETE" or step.effect.removes]
        return tuple(dict.fromkeys((*said, *sent)))

    def without(self, left: Collection[Address]) -> "Plan":
        """The plan without all that is about the addresses `left`."""
        if not left:
            return self
        steps = [step for step in self.steps if step.address not in left]
        there = {step.id for step in steps}
        return replace(
            self,
            changes=tuple(change for change in self.changes if change.address not in left),
            steps=tuple(replace(step, after=tuple(id for id in step.after if id in there)) for step in steps),
            expectations=tuple(item for item in self.expectations if item.address not in left),
            bindings=tuple(binding for binding in self.bindings if binding.address not in left),
            inputs=tuple(given for given in self.inputs if Address.parse(given[0]) not in left),
            moves=tuple(move for move in self.moves if move.source not in left and move.target not in left),
            loosened=tuple(weakened for weakened in self.loosened if weakened.address not in left),
        )


OutcomeWord = Literal["done", "pending", "unknown", "failed", "skipped"]


class Result(Struct, frozen=True):
    """The outcome of one step. `error` is one sentence, also for a skipped step: why.

    `note`: what else a person should know. `undecided`: what the platform shows does not tell what became
    of its call.
    """

    address: Address
    step: str
    outcome: OutcomeWord
    id: str | None = None
    error: str = ""
    note: str = ""
    undecided: bool = False
