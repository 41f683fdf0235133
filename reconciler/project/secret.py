"""The sources of secret values in one run, comparisons with the values that were set, and encrypted files.

No file of encrypted values or of age identities is overwritten that may be the only one.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from reconciler.core.advice import Command, command
from reconciler.core.errors import ReconcilerError, SecretUnavailable
from reconciler.core.model import Address, Resource, StateRecord
from reconciler.core.steps import OutputRef
from reconciler.core.words import did_you_mean
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import holds_secrets, secret_of
from reconciler.kinds.source import OWN_VARIABLES
from reconciler.manifests.revisions.sources import value_sources
from reconciler.moves.records import earlier_addresses, follow_moves
from reconciler.policies import find_policies
from reconciler.project.files import require_ours
from reconciler.project.settings import ProjectSettings
from reconciler.secrets import age
from reconciler.secrets.fingerprint import fingerprint
from reconciler.secrets.sensitive import Sensitive
from reconciler.secrets.sources import Allowed, Sources
from reconciler.state.store import Store

Comparison = Literal["same", "differs", "not_set", "not_readable", "not_known"]


class Fingerprinted(Struct, frozen=True):
    """One secret: the keyed fingerprint of the value that its source gives now, compared with the record's.

    `not_set`: nothing is recorded yet; `not_readable`, `not_known` (it needs an answer of the platform):
    there is no fingerprint, and `problem` and `help` say why.
    """

    address: Address
    fingerprint: str | None
    comparison: Comparison
    problem: str = ""
    help: str = ""
    advice: tuple[Command, ...] = ()


async def fingerprints(
    store: Store,
    sources: Sources,
    resources: Sequence[Resource],
    policies: Sequence[Resource],
    addresses: Collection[Address],
) -> list[Fingerprinted]:
    """One for each secret of `resources` (of those at `addresses`, unless that is empty), by address.

    `policies`: among them the entries of moves, which records follow.

    Raises ReconcilerError for an address without a secret. `store` must hold a state: without one, its key
    would be another one the next time.
    """
    sources.runs_programs = True
    kinds = find_kinds()
    refs = {resource.address: secret_of(kinds[resource.address.kind], resource) for resource in resources}
    wanted = {address: ref for address, ref in refs.items() if ref is not None}
    unknown = [str(address) for address in addresses if address not in wanted]
    if unknown:
        raise ReconcilerError(
            f"the manifests have no secret {', '.join(f'`{name}`' for name in unknown)}",
            help=did_you_mean(unknown[0], list(map(str, wanted)))
            or "an address looks like Secret/shop/PASSWORD; without one, all are shown",
        )
    state = await store.load()
    records = follow_moves(kinds, policies, resources, state.records).records
    key = await store.fingerprint_key()
    chosen = {address: ref for address, ref in wanted.items() if not addresses or address in addresses}
    sources.prepare(chosen.values())
    found = []
    for address, ref in sorted(chosen.items(), key=lambda item: str(item[0])):
        if any(isinstance(part, OutputRef) for part in ref.parts):
            plan = command("plan")
            problem = f"its template needs what the platform answers: `{plan}` compares it"
            found.append(Fingerprinted(address, None, "not_known", problem, advice=(plan,)))
            continue
        try:
            value = sources.value(ref, lambda ref: None)
        except SecretUnavailable as missing:
            found.append(
                Fingerprinted(address, None, "not_readable", missing.message, missing.help, missing.advice)
            )
            continue
        now, is_same = compare_fingerprints(key, address, value, record := records.get(address))
        is_set = record is not None and record.applied.get("fingerprint") is not None
        comparison: Comparison = "same" if is_same else "differs" if is_set else "not_set"
        found.append(Fingerprinted(address, now, comparison))
    return found


def compare_fingerprints(
    key: bytes, address: Address, value: Sensitive, record: StateRecord | None
) -> tuple[str, bool]:
    """The fingerprint of `value` at `address`, and whether the recorded one is of that value.

    A record that was moved still has the fingerprint of an earlier address.
    """
    now, recorded = fingerprint(key, address, value), record.applied.get("fingerprint") if record else None
    names = earlier_addresses(record) if record is not None else ()
    return now, recorded in (now, *(fingerprint(key, name, value) for name in names))


def refuse_other_files(out: Path) -> None:
    """Raises ReconcilerError where something else than an encrypted value stands: it would be lost."""
    require_ours(
        out,
        lambda data: len(data) <= age.MAX_ENCRYPTED_BYTES and age.is_encrypted(data),
        "a value encrypted with age",
        help="--out replaces only an encrypted value: name another FILE",
    )


def secret_sources(
    config: ProjectSettings,
    resources: Sequence[Resource] = (),
    *,
    take_signals: bool = True,
    runs_programs: bool = False,
    ours: bool = False,
) -> Sources:
    """The sources of secret values for one run, as the settings allow. `ours`: also our own credentials.

    `resources`: an `exec` program does not get the variables that their secrets and policies name.
    """
    secrets, kinds = config.settings.secrets, {**find_kinds(), **find_policies()}
    values: set[str] = set()
    for resource in resources:
        kind = kinds[resource.address.kind]
        if holds_secrets(kind):
            values.update(source.env for _, source in value_sources(resource.spec) if source.env is not None)
            if (ref := secret_of(kind, resource)) is not None:
                values.update(ref.variables())  # in a template, too
    identity = secrets.age_identity_from
    return Sources(
        config.root,
        config.variables,
        Allowed(
            identity_from=identity.ref() if identity is not None else None,
            programs=tuple(secrets.exec),
            withheld=tuple(sorted(config.secret_variables)),
            values=frozenset(values),
            own=OWN_VARIABLES if ours else config.own_variables,
            confined=config.trusted is not None,
        ),
        take_signals=take_signals,
        runs_programs=runs_programs,
    )
