"""Opens a Project from settings and options: state, platform, providers and sources of secrets.

Secrets, tokens and identities are read when they are needed, not here.
"""

import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager, nullcontext
from functools import partial

from msgspec import Struct, field

from reconciler.approvals.in_force import authority_here, authority_of
from reconciler.approvals.rules import NO_RULES
from reconciler.core.clock import SystemClock
from reconciler.core.context import EMBEDDED, program_version
from reconciler.core.errors import ReconcilerError, StateMoved, StoreError
from reconciler.core.model import Resource
from reconciler.core.reporter import Reporter
from reconciler.execution.limits import Limits
from reconciler.kinds.roles import secret_of
from reconciler.policies import find_policies
from reconciler.policies.provider import ExtensionProviderSpec
from reconciler.project.attribution import attribution_of, holder
from reconciler.project.embedded import SANDBOX_SETTLE_S, SANDBOX_TOKEN, embedded_sandbox, seed_sandbox
from reconciler.project.identity import refuse_other_platform, refuse_other_state
from reconciler.project.project import Project
from reconciler.project.secret import secret_sources
from reconciler.project.settings import ProjectSettings
from reconciler.project.store import AS_CONFIGURED, Opening, open_state, require_private
from reconciler.secrets.sensitive import Sensitive
from reconciler.secrets.sources import Sources
from reconciler.services.client import Client
from reconciler.services.platform import platform_client
from reconciler.services.provider import provider_client
from reconciler.services.rate import RateLimit, Waiting, quiet
from reconciler.services.transport import HttpTransport, is_loopback
from reconciler.state.spooling import Spooling
from reconciler.state.store import State

Rates = dict[tuple[str, float | None], RateLimit]


class Options(Struct, frozen=True):
    """How a project is opened. `take_signals`: signals are ours to handle while programs give secrets.

    `reason`: why a person does what is done. `base`: the revision before the change, whose rules count.
    `rates`: the platform's rate limits by address and number, which runs of one process may share.
    """

    state_url: str | None = None
    lock_timeout_s: float = 0.0
    read_only: bool = False
    take_signals: bool = True
    reason: str = ""
    base: str = ""
    rates: Rates = field(default_factory=dict)


@asynccontextmanager
async def open_project(
    config: ProjectSettings,
    options: Options,
    reporter: Reporter,
    resources: Sequence[Resource] = (),
    policies: Sequence[Resource] = (),
    store: Spooling | None = None,
) -> AsyncIterator[Project]:
    """The project, open for one verb.

    `resources`: the embedded sandbox gets the apps, organizations and machines that they name. `policies`:
    among them the providers that calls may go to. `store`: the state's store, if it is open already; it stays
    open. With the embedded sandbox the state is its own, and is made where there is none yet. Raises Refused
    for a state of another platform.
    """
    if config.emulated and options.state_url is not None:
        raise ReconcilerError("the sandbox has its own state", help="run it without --state")
    settings, clock = config.settings, SystemClock()
    authority = NO_RULES
    if not config.emulated:  # before anything is opened
        authority = authority_here(config) if options.read_only else authority_of(config, options.base)
    sources = secret_sources(config, (*resources, *policies), take_signals=options.take_signals)
    opening = Opening(options.state_url, tell=reporter.note)
    place = opening.shown(config)
    async with (
        open_providers(policies, sources, read_only=options.read_only) as providers,
        open_platform(config, options, reporter.waiting_for_limit) as (platform, transport),
        nullcontext(store) if store is not None else open_state(config, opening) as opened,
    ):
        state = await begin_work(config, opened, opening) if store is None else None
        if not config.emulated:
            refuse_other_platform(state or await opened.load(), platform.base_url, place)
        else:
            await opened.create()
            await seed_sandbox(transport, platform.base_url, resources, reporter)
        yield Project(
            store=opened,
            platform=platform,
            capabilities=settings.capabilities,
            limits=limits_of(config),
            clock=clock,
            reporter=reporter,
            sources=sources,
            new_id=lambda: uuid.uuid4().hex,
            holder=holder(),
            by=attribution_of(config, options.reason),
            lock_timeout_s=options.lock_timeout_s,
            providers=providers,
            environment=config.env,
            address=EMBEDDED if config.emulated else platform.base_url,
            state_url=place,
            own_state=config.emulated or settings.state.lineage is not None,
            trusted=config.trusted.ref if config.trusted is not None else "",
            environments=None if config.emulated else config,  # there, each has a world of its own
            authority=authority,
            variables=config.variables,
        )


@asynccontextmanager
async def open_platform(
    config: ProjectSettings, options: Options, waiting: Waiting = quiet
) -> AsyncIterator[tuple[Client, HttpTransport]]:
    """The platform's client, and the line that it speaks through. `waiting`: see `RateLimit`.

    Raises ReconcilerError where no platform is configured. The token is asked for when it is needed.
    """
    execution, source = config.settings.execution, config.settings.platform.token_from
    with _base_url(config) as base_url:
        is_given = bool(config.variables.get(source.env))
        emulators = config.emulated or (source.emulator and is_loopback(base_url) and not is_given)
        connections = execution.concurrency + execution.read_concurrency
        limit, clock = rate_limit_of(config, base_url), SystemClock()
        rate = options.rates.setdefault((base_url, limit), RateLimit(limit, clock, waiting=waiting))
        async with aclosing(HttpTransport(base_url, connections=connections)) as transport:
            yield (
                platform_client(
                    transport,
                    base_url,
                    (lambda: SANDBOX_TOKEN) if emulators else partial(_token, source.env, config.variables),
                    clock,
                    rate=rate,
                    user_agent=f"reconciler/{program_version()}",
                    read_only=options.read_only,
                    credential="the emulator" if emulators else f"the environment variable `{source.env}`",
                ),
                transport,
            )


async def begin_work(
    config: ProjectSettings, store: Spooling, opening: Opening = AS_CONFIGURED, *, pinned: bool = True
) -> State | None:
    """Check that `store` has the state that is meant, before a verb works with it.

    A move to this place that was cut off just before its end is completed, where the old side can be read;
    not with `opening.read_only`. Returns the state; None where it was not needed yet: in a shared store each
    look takes time. Raises Refused where it is not the state that the settings pin, unless it need not be
    `pinned`, and StateMoved for one that has moved away.
    """
    pin = config.settings.state.lineage if pinned else None
    state = await _complete_move(config, store, opening) if not opening.read_only else None
    if pin is not None:
        state = state or await store.load()
        refuse_other_state(state, pin, opening.shown(config))
    return state


async def _complete_move(config: ProjectSettings, store: Spooling, opening: Opening) -> State | None:
    """The state, where it could be read at once. Raises StateMoved for one that has moved away from here."""
    try:
        return await store.load()
    except StateMoved as moved:
        if not moved.copy:
            raise
        from reconciler.project.copies import Side, end_move  # few states ever move

        place = opening.shown(config)
        async with open_state(config, Opening(moved.to, read_only=True, changing=True)) as old:
            try:
                await end_move(Side(old, moved.to), Side(store, place))
            except ReconcilerError:
                raise moved from None
        opening.tell(f"the move of the state from {moved.to} to {place} was cut off; it is complete now")
    except StoreError:
        pass  # the state is damaged: the command that uses it reports that
    return None


@asynccontextmanager
async def open_providers(
    policies: Sequence[Resource], sources: Sources, *, read_only: bool
) -> AsyncIterator[Mapping[str, Client]]:
    """A client for each ExtensionProvider among `policies`, by name. Secrets are read when they sign."""
    clock, providers = SystemClock(), {}
    async with AsyncExitStack() as stack:
        for resource in policies:
            if not isinstance(resource.spec, ExtensionProviderSpec):
                continue
            spec, name = resource.spec, resource.address.name
            transport = await stack.enter_async_context(aclosing(HttpTransport(spec.base_url)))
            providers[name] = provider_client(
                name,
                transport,
                spec.base_url,
                partial(_signing_secret, sources, resource),
                clock,
                new_nonce=lambda: uuid.uuid4().hex,
                encoding=spec.signature_encoding,
                user_agent=f"reconciler/{program_version()}",
                read_only=read_only,
            )
        yield providers


def _signing_secret(sources: Sources, resource: Resource) -> Sensitive:
    """The secret that signs requests to the provider of `resource`."""
    ref = secret_of(find_policies()[resource.address.kind], resource)
    assert ref is not None
    return sources.value(ref, lambda ref: None)


def limits_of(config: ProjectSettings) -> Limits:
    """The limits of a run. The sandbox settles faster than a platform, unless the settings say otherwise."""
    execution = config.settings.execution
    chosen = "RECONCILE_SETTLE_S" in config.variables or "settle_s" in execution.model_fields_set
    settle_s = execution.settle_s if chosen or not config.emulated else SANDBOX_SETTLE_S
    return Limits(
        execution.concurrency,
        execution.deadline_s,
        settle_s,
        execution.adopt_inferred,
        execution.read_concurrency,
    )


def rate_limit_of(config: ProjectSettings, base_url: str) -> float | None:
    """Requests per second and action of the platform at `base_url`; None: as many as there are."""
    platform = config.settings.platform
    return None if is_loopback(base_url) and not platform.rate_limit_loopback else platform.rate_limit


def _token(name: str, variables: Mapping[str, str]) -> str:
    """The platform's token, from the variable `name`. Raises ReconcilerError where that is not set."""
    token = variables.get(name, "")
    if not token:
        raise ReconcilerError(
            f"no token: the environment variable `{name}` is not set",
            help="set it, or name another one in `platform.token_from` of reconcile.yaml",
        )
    return token


@contextmanager
def _base_url(config: ProjectSettings) -> Iterator[str]:
    """The platform's address: the configured one, or that of an embedded sandbox that runs meanwhile."""
    if config.emulated:
        require_private(config.root, config.private)
        with embedded_sandbox(config.private / "sandbox.db") as url:
            yield url
        return
    if config.settings.platform.base_url is None:
        raise ReconcilerError(
            "no platform is configured",
            help="set `platform.base_url` in reconcile.yaml (or RECONCILE_BASE_URL), "
            "or pass --sandbox to use the embedded emulator",
        )
    yield config.settings.platform.base_url
