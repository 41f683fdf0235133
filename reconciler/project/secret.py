"""The sources of secret values in one run, comparisons with the values that were set, and encrypted files.

No file of encrypted values or of age identities is overwritten that may be the only one.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from reconciler.core.advice import Command, command
from reconciler.core.errors import ReconcilerError, SecretUnavailable
from reconciler.core.model import Address, Resource
from reconciler.core.steps import OutputRef
from reconciler.core.words import did_you_mean
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import secret_of
from reconciler.moves.records import earlier_addresses, follow_moves
from reconciler.policies import find_policies
from reconciler.project.files import require_ours, write_output
from reconciler.project.settings import ProjectSettings
from reconciler.secrets import age
from reconciler.secrets.fingerprint import fingerprint
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
        now, record = fingerprint(key, address, value), records.get(address)
        set_before = record.applied.get("fingerprint") if record is not None else None
        comparison: Comparison = "not_set"
        if record is not None and set_before is not None:
            earlier = [
                fingerprint(key, earlier_address, value) for earlier_address in earlier_addresses(record)
            ]
            comparison = "same" if set_before in (now, *earlier) else "differs"
        found.append(Fingerprinted(address, now, comparison))
    return found


def refuse_other_files(out: Path) -> None:
    """Raises ReconcilerError where something else than an encrypted value stands: it would be lost."""
    require_ours(
        out,
        lambda data: len(data) <= age.MAX_ENCRYPTED_BYTES and age.is_encrypted(data),
        "a value encrypted with age",
        help="--out replaces only an encrypted value: name another FILE",
    )


def write_encrypted(out: Path, armored: str) -> None:
    """All of it or nothing: a file that is there stays as it is until the new one is complete."""
    refuse_other_files(out)  # meanwhile
    write_output(out, armored.encode("ascii"), mode=0o600)


def secret_sources(
    config: ProjectSettings,
    resources: Sequence[Resource] = (),
    *,
    take_signals: bool = True,
    runs_programs: bool = False,
) -> Sources:
    """The sources of secret values for one run, as the settings allow.

    `resources`: an `exec` program does not get the variables that their secrets name.
    """
    secrets, kinds = config.settings.secrets, {**find_kinds(), **find_policies()}
    refs = [secret_of(kinds[resource.address.kind], resource) for resource in resources]
    identity = secrets.age_identity_from
    return Sources(
        config.root,
        config.variables,
        Allowed(
            identity_from=identity.ref() if identity is not None else None,
            programs=tuple(secrets.exec),
            withheld=("RECONCILE_TOKEN", *sorted(config.secret_variables)),
            values=frozenset(name for ref in refs if ref is not None for name in ref.variables()),
            own=config.own_variables,
            confined=config.trusted is not None,
        ),
        take_signals=take_signals,
        runs_programs=runs_programs,
    )
