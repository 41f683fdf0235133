"""Forged approvals: `python -m tests.reliability.approvals [--vectors 2000] [--seed 1]`.

Each vector is a plan that a rule asks people about, the approvals that they gave, and one thing that
somebody changed afterwards: the plan in the file, the one that apply makes itself, its rehearsal, an
approval, a key, the signers, a clock, the environment, the state, the revision before. What is changed must
not run, and what nobody changed must. A plain `ssh-keygen -Y verify` must judge each signature as the
product does. Signatures are real ones.
"""

import argparse
import copy
import dataclasses
import random
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
from msgspec.structs import replace

from reconciler.approvals import judging
from reconciler.approvals.in_force import Terms, authority_of
from reconciler.approvals.judging import Given, judge
from reconciler.approvals.rules import Authority, Rule, Said, Signers
from reconciler.approvals.statement import Approval, Statement, parse_approval
from reconciler.core.diagnostics import has_errors
from reconciler.core.errors import ReconcilerError
from reconciler.core.model import Address
from reconciler.core.steps import PLATFORM, Loosened, Plan
from reconciler.planning.digest import origin, parse_plan, plan_digest, plan_json
from reconciler.planning.reviewed import as_reviewed, made_elsewhere
from reconciler.project.project import Project
from reconciler.project.settings import find_settings
from reconciler.rehearsal.results import NONE, Cell, Rehearsal
from reconciler.rehearsal.twin import ASSUMED, assumptions
from reconciler.state.store import State
from tests.approvals.people import ENV, Person, make, plainly_verified
from tests.execution.stage import START, Stage
from tests.planning.plans import plan_of
from tests.reliability.proof import Tally
from tests.revisions.repository import ISOLATED, commit, git

CASES = (
    "kinds/secret/a_template_over_a_new_cluster_waits_for_it",
    "kinds/cluster/restore_from_a_cluster_of_the_manifests",
    "kinds/volume/grow_and_change_retention",
    "kinds/extension/provision",
)
KEYS = (("-t", "ed25519"), ("-t", "ecdsa"), ("-t", "ed25519"), ("-t", "rsa", "-b", "2048"))
HOUR = timedelta(hours=1)
OWN = 'namespaces="reconcile-plan"'
SIGNATURES = "signatures judged twice"


@dataclasses.dataclass(frozen=True)
class Cast:
    """Who takes part: `known` may sign, each with a second key in `spare`, and `mallory` may not."""

    known: Sequence[Person]
    spare: Sequence[Person]
    mallory: Person
    folder: Path

    @classmethod
    def of(cls, folder: Path) -> "Cast":
        names = [f"person{number}@example.com" for number in range(len(KEYS))]
        known = [make(folder, name, *options) for name, options in zip(names, KEYS, strict=True)]
        spare = [dataclasses.replace(make(folder, f"spare-{name}"), name=name) for name in names]
        return cls(known, spare, make(folder, "mallory@example.com"), folder)


@dataclasses.dataclass
class World:
    """What `apply` is given: a `saved` plan, and the approvals as they are in `files`.

    `plan`: the one that it makes itself.
    """

    plan: Plan
    saved: Plan
    rule: Rule
    people: list[Person]
    statement: Statement
    lines: list[str]
    files: list[bytes]
    now: datetime
    rehearsal: Rehearsal | None
    environment: str
    lineage: str
    used: set[str] = dataclasses.field(default_factory=set)
    authority: Authority | None = None

    @property
    def rehearsed(self) -> str:
        return self.rehearsal.digest if self.rehearsal is not None else ""


def draw(rng: random.Random, cast: Cast) -> World:
    plan, at = plan_of(rng.choice(CASES)), START + rng.randrange(1000) * HOUR
    rule = Rule.model_validate(
        {"when": {"environment": plan.context.environment}, "from": rng.choice((1, 1, 2, 3)), "valid": "24h"}
    )
    people = rng.sample(list(cast.known), rule.people)
    rehearsal = rng.choice((None, _rehearsal(rng)))
    statement = Statement(
        plan=plan_digest(plan),
        rehearsal=rehearsal.digest if rehearsal is not None else "",
        environment=plan.context.environment,
        lineage=plan.context.lineage or "lineage-1",
        principal="nobody",
        reason=rng.choice(("old data", "naïve, “quoted”", "-----BEGIN SSH SIGNATURE-----", '{"plan": 1}')),
        at=at,
        expires=at + 24 * HOUR,
        id="0" * 32,
    )
    lines = [each.line(rng.choice((OWN, ""))) for each in (*cast.known, *cast.spare)]
    rng.shuffle(lines)
    files = [each.approves(statement).to_bytes() for each in people]
    now = at + rng.randrange(24 * 60) * HOUR / 60
    return World(
        plan,
        plan,
        rule,
        people,
        statement,
        lines,
        files,
        now,
        rehearsal,
        statement.environment,
        statement.lineage,
    )


def _rehearsal(rng: random.Random) -> Rehearsal:
    steps = tuple(f"Volume/shop/{rng.randrange(1 << 32):08x}#create" for _ in range(2))
    cells = (Cell("", NONE, "converged"), *(Cell(step, "killed", "decision") for step in steps))
    return Rehearsal(steps, 2, cells, assumptions=assumptions(rng.sample(sorted(ASSUMED), 2)))


Change = Callable[[World, random.Random, Cast], None]


def another_file(world: World, rng: random.Random, cast: Cast) -> None:
    """One value of what the saved plan does or relies on was changed after it was approved."""
    world.saved = _another(world, rng)


def another_plan(world: World, rng: random.Random, cast: Cast) -> None:
    """One value of what apply plans itself is another than in the file that was approved."""
    world.plan = _another(world, rng)


def another_plan_in_both(world: World, rng: random.Random, cast: Cast) -> None:
    """The file was made again once something had changed, and the approvals are of the one before."""
    world.plan = world.saved = _another(world, rng)


def _another(world: World, rng: random.Random) -> Plan:
    """The plan with one other value in its content."""
    while True:
        document = copy.deepcopy(plan_json(world.plan))
        holder, key = rng.choice(list(_leaves(document)))
        value = holder[key]
        holder[key] = (
            (not value) if isinstance(value, bool) else value + 1 if isinstance(value, int) else f"{value}x"
        )
        try:
            changed = parse_plan(document)
        except ValueError:
            continue
        if plan_digest(changed) == plan_digest(world.plan):
            continue
        # What nothing is sent for, and another environment, are about another rule or another mutation.
        if changed.context.environment == world.environment and any(step.mutates for step in changed.steps):
            return changed


def _leaves(value: Any) -> Iterator[tuple[Any, Any]]:
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(item, dict | list):
            yield from _leaves(item)
        elif item is not None and not isinstance(item, float):
            yield value, key


def another_objective(world: World, rng: random.Random, cast: Cast) -> None:
    """A plan that sends nothing weakens an objective; approved was one that weakens none, or otherwise."""
    _weakens(world, rng.choice(((), (96,), (None,), (48, 48))))
    then = world.plan
    _weakens(world, (48,))
    _signed_again(world, then)
    world.saved = rng.choice((then, world.plan)) if then.loosened else world.plan  # else nothing is weaker


def that_objective(world: World, rng: random.Random, cast: Cast) -> None:
    """What was approved is exactly the weaker objective."""
    _weakens(world, rng.choice(((48,), (None,), (48, 96))))
    world.saved = world.plan
    _signed_again(world, world.plan)


def _weakens(world: World, ages: Sequence[int | None]) -> None:
    """The plan does nothing but let the newest snapshots of some volumes be so old."""
    addresses = [Address("Volume", f"data{number}", "shop") for number in range(len(ages))]
    loosened = [
        Loosened(each, "snapshot_max_age_h", 24, age) for each, age in zip(addresses, ages, strict=True)
    ]
    nothing = replace(world.plan, changes=(), steps=(), expectations=(), bindings=(), inputs=(), unread=())
    world.plan = replace(nothing, loosened=tuple(loosened))
    when = {"lowers": "snapshot_max_age_h"}
    world.rule = Rule.model_validate({"when": when, "from": world.rule.people})


def another_provider_is_read(world: World, rng: random.Random, cast: Cast) -> None:
    """No call goes to the provider, but its answers decide; it is at another address than approved."""
    plan = plan_of("kinds/extension/provision")
    calls = [dataclasses.replace(step.call, service=PLATFORM) for step in plan.steps]
    steps = [replace(step, call=call) for step, call in zip(plan.steps, calls, strict=True)]
    then = replace(plan, steps=tuple(steps), context=world.plan.context, manifests=world.plan.manifests)
    world.plan = replace(then, providers={"acme": "https://other.example"})
    _signed_again(world, then)
    world.saved = rng.choice((then, world.plan))


def _signed_again(world: World, plan: Plan) -> None:
    world.statement = replace(world.statement, plan=plan_digest(plan))
    world.files = [each.approves(world.statement).to_bytes() for each in world.people]


def another_rehearsal(world: World, rng: random.Random, cast: Cast) -> None:
    """Another one, none, or the same one that ends otherwise or takes something else for granted."""
    of = world.rehearsal
    others: list[Rehearsal | None] = [_rehearsal(rng)]
    if of is not None:
        (first, *rest), (cell, *cells) = of.assumptions, of.cells
        others += [
            None,
            replace(of, assumptions=tuple(rest)),
            replace(of, assumptions=(replace(first, says=f"not {first.says}"), *rest)),
            replace(of, assumptions=(replace(first, name=f"{first.name}_s"), *rest)),
            replace(of, cells=(replace(cell, end="pending"), *cells)),
            replace(of, differences=("one more call",)),
        ]
    world.rehearsal = rng.choice(others)


def another_environment(world: World, rng: random.Random, cast: Cast) -> None:
    world.environment = rng.choice(("prod2", "test", "base2"))
    world.rule = Rule.model_validate({"when": {"more_than_gb": 0}, "from": world.rule.people})


def another_state(world: World, rng: random.Random, cast: Cast) -> None:
    world.lineage += rng.choice(("x", "0", " "))


def too_late(world: World, rng: random.Random, cast: Cast) -> None:
    world.now = world.statement.expires + rng.choice((0, 1, 100_000)) * timedelta(seconds=1)


def too_early(world: World, rng: random.Random, cast: Cast) -> None:
    world.now = world.statement.at - rng.choice((6, 60, 10_000)) * HOUR / 60


def longer_than_the_rule(world: World, rng: random.Random, cast: Cast) -> None:
    """The signer gave himself more time than the rule does."""
    long = world.statement.at + 20 * 24 * HOUR
    world.files[0] = world.people[0].approves(world.statement, expires=long).to_bytes()
    world.now = world.statement.at + 25 * HOUR
    for number, person in enumerate(world.people[1:], 1):
        world.files[number] = person.approves(world.statement, expires=long, at=world.now).to_bytes()


def used_before(world: World, rng: random.Random, cast: Cast) -> None:
    world.used.add(parse_approval(rng.choice(world.files), "x").id)


def edited(world: World, rng: random.Random, cast: Cast) -> None:
    """A value of the statement is changed after it was signed."""
    at = rng.randrange(len(world.files))
    found = parse_approval(world.files[at], "x")
    said = rng.choice(
        (
            {"expires": found.statement.expires + HOUR},
            {"at": found.statement.at - HOUR},
            {"reason": "another"},
            {"id": secrets.token_hex(16)},
            {
                "principal": rng.choice(
                    [each.name for each in cast.known if each.name != found.statement.principal]
                )
            },
        )
    )
    world.files[at] = replace(found, statement=replace(found.statement, **said)).to_bytes()


def another_byte(world: World, rng: random.Random, cast: Cast) -> None:
    number = rng.randrange(len(world.files))
    text = bytearray(world.files[number])
    at = rng.randrange(len(text))
    match rng.randrange(4):
        case 0:
            text[at] ^= rng.randrange(1, 256)
        case 1:
            del text[at]
        case 2:
            text.insert(at, rng.choice(b"\n A=0\0"))
        case _:
            del text[at:]
    world.files[number] = bytes(text)


def swapped_signature(world: World, rng: random.Random, cast: Cast) -> None:
    """A signature of the same person, of another statement."""
    other = parse_approval(world.people[0].approves(world.statement, plan="c" * 64).to_bytes(), "x")
    world.files[0] = replace(parse_approval(world.files[0], "x"), signature=other.signature).to_bytes()


def another_namespace(world: World, rng: random.Random, cast: Cast) -> None:
    person = world.people[0]
    said = replace(world.statement, principal=person.name, id=secrets.token_hex(16))
    namespace = rng.choice(("git", "file", "reconcile", "x"))
    command = ["ssh-keygen", "-Y", "sign", "-f", str(person.key), "-n", namespace]
    done = subprocess.run(command, input=said.to_bytes(), capture_output=True, check=True)
    world.files[0] = Approval(said, done.stdout).to_bytes()


def removed_signer(world: World, rng: random.Random, cast: Cast) -> None:
    world.lines = [line for line in world.lines if world.people[0].public not in line]


def ended_signer(world: World, rng: random.Random, cast: Cast) -> None:
    """Its key was valid once, will be, or is for something else."""
    day = f"{world.now - 48 * HOUR:%Y%m%d}", f"{world.now + 48 * HOUR:%Y%m%d}"
    options = rng.choice((f'valid-before="{day[0]}"', f'valid-after="{day[1]}"', 'namespaces="git,file"'))
    removed_signer(world, rng, cast)
    world.lines.append(world.people[0].line(options))


def foreign_key(world: World, rng: random.Random, cast: Cast) -> None:
    """Mallory signs, under her own name or another's."""
    name = rng.choice((cast.mallory.name, world.people[0].name))
    world.files[0] = cast.mallory.approves(world.statement, principal=name).to_bytes()


def name_of_another(world: World, rng: random.Random, cast: Cast) -> None:
    """Somebody who may sign does so under the name of somebody else who may."""
    person = world.people[0]
    other = rng.choice([each.name for each in cast.known if each.name != person.name])
    world.files[0] = person.approves(world.statement, principal=other).to_bytes()


def twice_the_same(world: World, rng: random.Random, cast: Cast) -> None:
    """Too few people: one of them again, with the same approval, another one, another key or another name."""
    if world.rule.people == 1:
        world.rule = Rule.model_validate({"when": {"environment": world.environment}, "from": 2})
        world.files.append(b"")
    person = world.people[0]
    spare = next(each for each in cast.spare if each.name == person.name)
    alias = f"alias-{person.name}"
    world.lines.append(person.line(OWN, alias))
    world.files[-1] = rng.choice(
        (
            lambda: world.files[0],
            lambda: person.approves(world.statement).to_bytes(),
            lambda: spare.approves(world.statement).to_bytes(),
            lambda: person.approves(world.statement, principal=alias).to_bytes(),
        )
    )()


def one_is_missing(world: World, rng: random.Random, cast: Cast) -> None:
    world.files.pop(rng.randrange(len(world.files)))


def nobody_known(world: World, rng: random.Random, cast: Cast) -> None:
    world.authority = Authority(Said((world.rule,), (Signers("", "`allowed_signers`"),)))


def signers_of_the_change(world: World, rng: random.Random, cast: Cast) -> None:
    """Only what is checked out names Mallory, and drops the rule: a real repository with two commits."""
    world.authority = _authority(world, rng, cast)
    world.files = [cast.mallory.approves(world.statement).to_bytes() for _ in world.files]


def none(world: World, rng: random.Random, cast: Cast) -> None:
    pass


def same_plan_made_again(world: World, rng: random.Random, cast: Cast) -> None:
    """By apply, at another time and commit; at times the file was made again, too."""
    context = replace(world.plan.context, at=world.now, revision="f" * 40, dirty=True)
    world.plan = replace(world.plan, id=secrets.token_hex(8), context=context, diagnostics=())
    world.saved = rng.choice((world.saved, world.plan))


def one_more_that_is_dead(world: World, rng: random.Random, cast: Cast) -> None:
    world.files.append(cast.mallory.approves(world.statement).to_bytes())
    rng.shuffle(world.files)


def rules_of_the_base(world: World, rng: random.Random, cast: Cast) -> None:
    world.authority = _authority(world, rng, cast)


FATAL: Sequence[Change] = (
    another_file,
    another_plan,
    another_plan_in_both,
    another_rehearsal,
    another_environment,
    another_state,
    too_late,
    too_early,
    longer_than_the_rule,
    used_before,
    edited,
    another_byte,
    swapped_signature,
    another_namespace,
    removed_signer,
    ended_signer,
    foreign_key,
    name_of_another,
    twice_the_same,
    one_is_missing,
    nobody_known,
    signers_of_the_change,
    another_objective,
    another_provider_is_read,
)
HARMLESS: Sequence[Change] = (
    none,
    same_plan_made_again,
    one_more_that_is_dead,
    rules_of_the_base,
    that_objective,
)


def _authority(world: World, rng: random.Random, cast: Cast) -> Authority:
    """Of a repository whose second commit is the change: it drops or moves what the first one says."""
    with tempfile.TemporaryDirectory(dir=cast.folder) as folder:
        root = Path(folder)
        git(root, "init", "-q", "-b", "main")
        when, people = f"{{environment: {world.environment}}}", world.rule.people
        (root / "reconcile.yaml").write_text(f"approvals: {{rules: [{{when: {when}, from: {people}}}]}}\n")
        (root / "allowed_signers").write_text("".join(world.lines))
        before = commit(root)
        added = "".join([*world.lines, cast.mallory.line()])
        (root / "allowed_signers").write_text(added)
        match rng.randrange(3):
            case 0:
                (root / "reconcile.yaml").unlink()
            case 1:
                (root / "reconcile.yaml").write_text("approvals: {rules: []}\n")
            case _:
                (root / "other").write_text(added)
                (root / "reconcile.yaml").write_text("approvals: {signers: other}\n")
        commit(root)
        return authority_of(find_settings(root, {**ISOLATED, **ENV}), before)


class _Clock:
    def __init__(self, now: datetime) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing waits")


async def runs(project: Project, world: World) -> bool:
    """Whether the plan would run, as far as its file and the approvals say."""
    if [*made_elsewhere(world.saved, origin(world.plan.context, world.plan.manifests))]:
        return False
    plan = as_reviewed(world.saved, world.plan, {}, {})
    if has_errors(plan.diagnostics):
        return False
    signers = Signers("".join(world.lines), "allowed_signers")
    project = dataclasses.replace(
        project,
        authority=world.authority or Authority(Said((world.rule,), (signers,))),
        clock=_Clock(world.now),
        environment=world.environment if world.environment != "base" else "",
        variables=ENV,
    )
    try:
        found = [parse_approval(data, "x") for data in world.files]
    except ReconcilerError:
        return False
    approvals = tuple({each.id: each for each in found}.values())
    state = State(world.lineage, {}, (), frozenset(world.used))
    given = Given(approvals, world.rehearsed, plan_digest(world.saved))
    judged = await judge(project, Terms(project.authority, {}, state, plan), given)
    return not has_errors(judged.problems) and bool(judged.counting)


def disagreements(world: World, cast: Cast) -> Iterator[str]:
    """Signatures that a plain ssh-keygen judges in another way."""
    allowed = "".join(world.lines).encode()
    for data in world.files:
        try:
            found = parse_approval(data, "x")
        except ReconcilerError:
            continue
        why = judging.why_unsigned(found, Signers(allowed.decode(), "them"), world.now, ENV)
        plain = plainly_verified(data, found.statement.principal, allowed, cast.folder, world.now)
        if plain != (why == ""):
            yield f"ssh-keygen says {plain}, the product {why or 'yes'}"


def play(vectors: int, seed: int) -> Tally:
    for case in CASES:
        plan_of(case)  # which runs by itself
    return anyio.run(_play, vectors, seed)


async def _play(vectors: int, seed: int) -> Tally:
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        cast = Cast.of(Path(folder))
        stage = Stage(Path(folder))
        try:
            for number in range(vectors):
                rng = random.Random(seed * 1_000_003 + number)
                world = draw(rng, cast)
                fatal = number % 4 != 0
                turn = number // 4
                if fatal:
                    change = FATAL[(turn * 3 + number % 4) % len(FATAL)]
                else:
                    change = HARMLESS[turn % len(HARMLESS)]
                files = list(world.files)
                change(world, rng, cast)
                if change is another_byte and world.files == files:
                    continue
                name = f"vector {number} ({change.__name__}{'' if fatal else ', harmless'})"
                tally.counts[change.__name__] += 1
                if await runs(stage.project(), world) == fatal:
                    tally.violations.append(f"{name}: {'accepted' if fatal else 'refused'}")
                tally.counts[SIGNATURES] += len(world.files)
                tally.violations += [f"{name}: {each}" for each in disagreements(world, cast)]
        finally:
            await stage.close()
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vectors", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    tally = play(options.vectors, options.seed)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
