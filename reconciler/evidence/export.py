"""Exports a run of the journal as a case, once a replay of the case has repeated the run."""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from reconciler.core.diagnostics import has_errors
from reconciler.core.errors import ReconcilerError
from reconciler.core.model import Address, Observation, Resource, StateRecord
from reconciler.core.steps import PLATFORM, Read
from reconciler.core.wire import Shape
from reconciler.evidence.case import Case, RunCalls, differences, guesses, run_calls, script, trace_of
from reconciler.evidence.replay import declared, replay
from reconciler.execution.limits import Limits
from reconciler.kinds import find_kinds
from reconciler.manifests.load import Loaded
from reconciler.manifests.meaning import digest_resources
from reconciler.manifests.validation.loader import Effective
from reconciler.manifests.writing.write import build
from reconciler.project.files import SourceTexts
from reconciler.project.manifests import read_manifests
from reconciler.project.settings import ProjectSettings
from reconciler.rehearsal.seed import Seed, seed_of
from reconciler.state.runs import PastRun
from reconciler.state.store import Event, JournalEntry

_MOST_PLAYS = 48  # of guesses about facts that are not in the journal
_MOST_NAMED = 3  # of the differences
_WAYS: Sequence[Mapping[str, Any]] = (  # of the platform, which are not in the journal either
    {},
    {"extend_needs_restart": "never"},
    {"extend_needs_restart": "always"},
)


class NotExportable(ReconcilerError):
    """The run cannot be exported; the message names the part that cannot be played again."""

    def __init__(self, why: str, help: str = "") -> None:
        super().__init__(f"the run cannot be exported: {why}; nothing was written", help=help)


def manifests_of(run: PastRun, paths: Sequence[str], config: ProjectSettings, texts: SourceTexts) -> Loaded:
    """Return the manifests that `run` recorded the digest of.

    They are those at `paths`, or the configured ones, of the working tree or of the recorded revision. Raises
    NotExportable.
    """
    began = run.began
    refs: list[str | None] = [None]
    if began.revision and not began.dirty:
        refs.append(began.revision)
    for ref in refs:
        try:
            loaded = read_manifests(paths, config, texts, ref=ref, keep=True).loaded
        except ReconcilerError:
            continue  # this clone does not have the revision
        if has_errors(loaded.diagnostics):
            continue
        if digest_resources((*loaded.resources, *loaded.policies)) == began.resources:
            return loaded
    raise NotExportable(
        "the manifests here are not those that it was made from",
        help=f"check out {began.revision} and try again" if began.revision else "check out those of its time",
    )


def export(
    run: PastRun,
    entries: Sequence[tuple[str, JournalEntry]],
    effective: Sequence[Effective],
    resources: Sequence[Resource],
    *,
    capabilities: Collection[str],
    limits: Limits,
    rate_limit: float | None,
) -> Case:
    """Return the case of `run`. Its replay has the trace of the run itself.

    `entries`: all that the journal has of the run. `effective`, `resources`: the manifests that it was made
    from. The other parameters are settings. Raises NotExportable.
    """
    seen = _seen(run, entries)
    found = run_calls(entries)
    _refuse_what_has_no_twin(found, seen)
    about = {Address.parse(text) for text in seen["about"]}
    wanted = _with_needs(about, resources)
    manifests = build([manifest for manifest in effective if _belongs(manifest, wanted)])
    try:
        again, _ = declared(manifests)
    except ReconcilerError as failure:
        raise NotExportable(f"its manifests do not stand for themselves: {failure.message}") from failure
    case = Case(
        run=run.id,
        began=run.began_at.isoformat(),
        about=seen["about"],
        records=seen["records"],
        capabilities=sorted(capabilities),
        limits=limits,
        rate_limit=rate_limit,
        switches={},
        entries=None,
        seed={},
        faults=[],
        trace={},
        manifests=manifests,
    )
    try:
        seed = _seed(seen, case.state_records(), again)
    except (ValueError, KeyError, TypeError):
        raise NotExportable("what it saw was journaled by another version of this program") from None
    return _faithful(replace(case, seed=seed), entries, found)


def _seen(run: PastRun, entries: Sequence[tuple[str, JournalEntry]]) -> Mapping[str, Any]:
    seen = run.observed
    if not any(entry.event is Event.INTENT for _, entry in entries):
        raise NotExportable("it sent no call")
    if "records" not in seen:
        raise NotExportable("it is of an older version, which did not record what a run begins with")
    if seen.get("left_out"):
        raise NotExportable(f"{seen['left_out']} of the objects that it saw had no room in the journal")
    return seen


def _refuse_what_has_no_twin(found: RunCalls, seen: Mapping[str, Any]) -> None:
    services = {call.sent.data.get("service", PLATFORM) for call in found.calls}
    services |= {read["service"] for read in seen["reads"]}
    if others := sorted(services - {PLATFORM}):
        raise NotExportable(f"the provider `{others[0]}` has no twin, and the run called it")
    if found.end == "interrupted":
        raise NotExportable("somebody interrupted it, and the journal does not tell when")
    unsent = [call for call in found.calls if call.end == "failed" and not call.status]
    if unsent:
        raise NotExportable(f"{unsent[0].sent.step} was refused before it was sent: {unsent[0].why}")


def _with_needs(about: Collection[Address], resources: Sequence[Resource]) -> set[Address]:
    known = {resource.address: resource for resource in resources}
    found, waiting = set[Address](), list(about)
    while waiting:
        address = waiting.pop()
        if address not in found:
            found.add(address)
            waiting += [to.address for to in known[address].references] if address in known else []
    return {address._replace(ordinal=0) for address in found}


def _belongs(manifest: Effective, wanted: Collection[Address]) -> bool:
    """Whether a manifest is wanted, or is a policy, which may give other manifests values."""
    return manifest.address in wanted or manifest.address.kind not in find_kinds()


def _faithful(case: Case, entries: Sequence[tuple[str, JournalEntry]], found: RunCalls) -> Case:
    """The first candidate whose replay repeats the trace. Raises NotExportable."""
    first: Mapping[str, Any] | None = None
    for candidate in itertools.islice(_candidates(case, entries, found), _MOST_PLAYS):
        played = replay(candidate)
        if played == candidate.trace:
            return candidate
        first = first or {**played, "expected": candidate.trace}
    assert first is not None
    if "refused" in first:
        raise NotExportable(f"played again, it is refused: {first['refused'][0]}")
    differing = list(differences(first["expected"], first))
    raise NotExportable(
        f"played again, it does something else: {'; '.join(differing[:_MOST_NAMED])}",
        help="something happened that the journal does not tell, such as reads that failed",
    )


def _candidates(case: Case, entries: Sequence[tuple[str, JournalEntry]], found: RunCalls) -> Iterator[Case]:
    """Yield `case` with the guesses about facts that are not in the journal, the likely ones first."""
    readings = [found]
    if found.end == "cut-off":
        readings.append(run_calls(entries, settled_later=False))
    for reading in readings:
        cut_off = reading.entries if reading.end == "cut-off" else None
        unsure = guesses(reading.calls)
        flips = [
            flipped for count in range(len(unsure) + 1) for flipped in itertools.combinations(unsure, count)
        ]
        serial = replace(case.limits, concurrency=1)
        for flipped, switches, limits in itertools.product(flips, _WAYS, (case.limits, serial)):
            yield replace(
                case,
                entries=cut_off,
                switches=dict(switches),
                limits=limits,
                faults=script(reading.calls, flipped),
                trace=trace_of(reading),
            )


def _seed(
    seen: Mapping[str, Any], records: Mapping[Address, StateRecord], resources: Collection[Resource]
) -> Seed:
    """The world that the run began with. Raises ValueError, KeyError or TypeError for another form."""
    return seed_of(dict(_observed(read, seen["objects"]) for read in seen["reads"]), resources, records)


def _observed(read: Mapping[str, Any], objects: Mapping[str, Any]) -> tuple[Read, Observation]:
    shape = Shape.named(read["shape"])
    items: Sequence[Any] = [shape.model.model_validate(objects[digest]) for digest in read["objects"]]
    return (
        Read(read["path"], shape, read["service"]),
        Observation(items, read.get("complete", True), datetime.fromisoformat(read["at"])),
    )
