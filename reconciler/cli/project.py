"""From settings and options to a Project: state, platform, and the embedded sandbox when it is asked for."""

import getpass
import json
import os
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio

from reconciler.core.clock import SystemClock
from reconciler.core.diagnostics import has_errors
from reconciler.core.errors import ManifestError, ReconcilerError
from reconciler.core.extras import require_extra
from reconciler.core.model import Resource
from reconciler.core.reporter import Reporter
from reconciler.execution.limits import Limits
from reconciler.kinds import find_kinds
from reconciler.pipeline.project import Desired, Project
from reconciler.secrets.sensitive import Sensitive
from reconciler.secrets.sources import Allowed, Sources
from reconciler.services.client import Platform
from reconciler.services.providers.client import ProviderClient
from reconciler.services.transport import HttpxTransport
from reconciler.settings import Found, Settings
from reconciler.state import open_store

SANDBOX_TOKEN = "sandbox"  # noqa: S105 - the default of `reconcile sandbox`; it protects nothing
SANDBOX_CLOCK = "x600"
SANDBOX_SETTLE_S = 1.0
_READY = "listening on "


@dataclass(frozen=True, slots=True)
class Options:
    """What the shared options said."""

    sandbox: bool = False
    state_url: str | None = None
    lock_timeout_s: float = 0.0
    read_only: bool = False


def load_desired(
    paths: Sequence[str],
    found: Found,
    reporter: Reporter,
    *,
    ref: str | None = None,
    changed_since: str | None = None,
) -> Desired:
    """The manifests at `paths`, or at the configured ones. Raises ManifestError when they hold errors.

    `ref`, `changed_since`: see `manifests.read_manifests`.
    """
    from reconciler.cli.manifests import read_manifests

    found_manifests = read_manifests(paths, found, ref=ref, changed_since=changed_since, reporter=reporter)
    loaded, focus = found_manifests.loaded, found_manifests.focus
    if has_errors(loaded.diagnostics):
        raise ManifestError("the manifests hold errors; nothing was changed", loaded.diagnostics)
    if focus is not None:
        count = sum(resource.address in focus for resource in loaded.resources)
        reporter.note(
            f"{count} of {len(loaded.resources)} resources changed since {changed_since}, "
            "or depend on what did"
        )
    return Desired(
        loaded.resources,
        loaded.diagnostics,
        found_manifests.selected,
        loaded.policies,
        focus,
        found_manifests.declared,
        found_manifests.declared.moved if paths else lambda address: "",
    )


def load_policies(found: Found, reporter: Reporter) -> Sequence[Resource]:
    """What the configured manifests hold that owns no objects, such as providers, for verbs without PATHs."""
    return load_desired((), found, reporter).policies


@asynccontextmanager
async def open_project(
    found: Found,
    options: Options,
    reporter: Reporter,
    resources: Sequence[Resource] = (),
    policies: Sequence[Resource] = (),
) -> AsyncIterator[Project]:
    """`resources`: what the embedded sandbox must have apps, organizations and machines for.

    `policies`: among them the providers that calls may go to.
    """
    settings, clock, sources = found.settings, SystemClock(), secret_sources(found)
    async with open_providers(policies, sources, read_only=options.read_only) as providers:
        with _base_url(found, options) as base_url:
            transport = HttpxTransport(base_url)
            store = open_store(
                options.state_url or settings.state,
                root=found.root,
                clock=clock,
                tell=reporter.note,
                environment=found.env,
            )
            try:
                if options.sandbox:
                    await _furnish(transport, base_url, resources, reporter)
                yield Project(
                    store=store,
                    platform=Platform(
                        transport,
                        base_url,
                        (lambda: SANDBOX_TOKEN) if options.sandbox else partial(_token, settings),
                        clock,
                        rate_limit=settings.platform.rate_limit,
                        user_agent=f"reconciler/{_version()}",
                        read_only=options.read_only,
                    ),
                    capabilities=settings.capabilities,
                    limits=_limits(settings, options),
                    clock=clock,
                    reporter=reporter,
                    sources=sources,
                    new_id=lambda: uuid.uuid4().hex,
                    holder=holder(),
                    lock_timeout_s=options.lock_timeout_s,
                    providers=providers,
                    environment=found.env,
                )
            finally:
                with anyio.CancelScope(shield=True):
                    await transport.aclose()
                    await store.close()


@asynccontextmanager
async def open_providers(
    policies: Sequence[Resource], sources: Sources, *, read_only: bool
) -> AsyncIterator[Mapping[str, ProviderClient]]:
    """A client for each ExtensionProvider among `policies`, by name. Secrets are read when they sign."""
    clock, lines = SystemClock(), []
    providers = {}
    try:
        for resource in policies:
            if resource.address.kind != "ExtensionProvider":
                continue
            spec, name = resource.spec, resource.address.name
            lines.append(HttpxTransport(spec.base_url))
            providers[name] = ProviderClient(
                name,
                lines[-1],
                spec.base_url,
                partial(_signing_secret, sources, resource),
                clock,
                new_nonce=lambda: uuid.uuid4().hex,
                encoding=spec.signature_encoding,
                user_agent=f"reconciler/{_version()}",
                read_only=read_only,
            )
        yield providers
    finally:
        with anyio.CancelScope(shield=True):
            for line in lines:
                await line.aclose()


def _signing_secret(sources: Sources, resource: Resource) -> Sensitive:
    ref = find_kinds()[resource.address.kind].secret(resource)
    assert ref is not None
    return sources.value(ref, lambda ref: None)


def secret_sources(found: Found) -> Sources:
    """Where the secret values of one run come from, as the settings allow."""
    secrets = found.settings.secrets
    identity = secrets.age_identity_from
    return Sources(
        found.root,
        os.environ,
        Allowed(
            identity_from=identity.ref() if identity is not None else None,
            programs=tuple(secrets.exec),
            withheld=("RECONCILE_TOKEN", *sorted(found.secret_variables)),
        ),
    )


def holder() -> str:
    """Who takes a lease, for whoever finds it taken."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # in a container, nobody may have this uid
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()} (pid {os.getpid()})"


def _limits(settings: Settings, options: Options) -> Limits:
    execution = settings.execution
    chosen = "RECONCILE_SETTLE_S" in os.environ or "settle_s" in execution.model_fields_set
    settle_s = execution.settle_s if chosen or not options.sandbox else SANDBOX_SETTLE_S
    return Limits(execution.concurrency, execution.deadline_s, settle_s, execution.adopt_inferred)


def _token(settings: Settings) -> str:
    name = settings.platform.token_from.env
    token = os.environ.get(name, "")
    if not token:
        raise ReconcilerError(
            f"no token: the environment variable `{name}` is not set",
            help="set it, or name another one in `platform.token_from` of reconcile.yaml",
        )
    return token


def _version() -> str:
    from importlib.metadata import version

    return version("reconciler")


# --- the embedded sandbox ---


@contextmanager
def _base_url(found: Found, options: Options) -> Iterator[str]:
    if not options.sandbox:
        if found.settings.platform.base_url is None:
            raise ReconcilerError(
                "no platform is configured",
                help="set `platform.base_url` in reconcile.yaml (or RECONCILE_BASE_URL), "
                "or pass --sandbox to use the embedded emulator",
            )
        yield found.settings.platform.base_url
        return
    folder = found.private
    for each in (folder.parent, folder) if found.env else (folder,):
        each.mkdir(mode=0o700, exist_ok=True)
    db = folder / "sandbox.db"
    from reconciler.sandbox import running_at

    running = running_at(db)
    while running is not None:
        if _accepts(running):
            yield running
            return
        time.sleep(0.05)  # it is ending: its command was killed a moment ago
        running = running_at(db)
    with _started_sandbox(db) as url:
        yield url


def _accepts(url: str) -> bool:
    address = urlsplit(url)
    try:
        socket.create_connection((address.hostname or "", address.port or 80), timeout=1).close()
    except OSError:
        return False
    return True


@contextmanager
def _started_sandbox(db: Path) -> Iterator[str]:
    """A sandbox process for this command: it ends when its stdin does, so it cannot outlive us."""
    require_extra("sandbox", "--sandbox")
    command = [sys.executable, "-m", "reconciler", "sandbox", "--port", "0", "--db", str(db)]
    command += ["--clock", SANDBOX_CLOCK, "--profile", "extended", "--until-stdin-closes"]
    process = subprocess.Popen(  # noqa: S603 - our own program
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a Ctrl-C on the terminal is ours to handle first
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        line = process.stdout.readline().strip()
        if not line.startswith(_READY):
            raise ReconcilerError("the embedded sandbox did not start", help="see its message above")
        yield line.removeprefix(_READY)
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait()


async def _furnish(
    transport: HttpxTransport, base_url: str, resources: Sequence[Resource], reporter: Reporter
) -> None:
    """What manifests name and cannot make: a person trying things out should not have to make it by hand."""
    apps = sorted({resource.address.app for resource in resources if resource.address.app})
    slugs = {getattr(resource.spec, "org_slug", None) for resource in resources} - {None}
    named = {each.spec.id: each.address.app for each in resources if each.address.kind == "Machine"}
    machines = {}
    if named:
        there = {each["id"] for each in (await _control(transport, base_url, "GET", "world"))["machines"]}
        machines = {id: app for id, app in sorted(named.items()) if id not in there}
    for name in apps:
        await _control(transport, base_url, "POST", "apps", {"name": name})
    for slug in sorted(map(str, slugs)):
        await _control(transport, base_url, "POST", "apps", {"org_slug": slug})
    for id, app in machines.items():
        await _control(transport, base_url, "POST", "machines", {"app": app, "id": id})
    made = [*apps, *(f"organization {slug}" for slug in sorted(map(str, slugs)))]
    made += [f"machine {id}" for id in machines]
    if made:
        reporter.note(f"embedded sandbox at {base_url} with {', '.join(made)}")


async def _control(
    transport: HttpxTransport, base_url: str, method: str, verb: str, body: Mapping[str, Any] | None = None
) -> Any:
    """The answer of one of the emulator's control verbs."""
    answer = await transport.request(
        method,
        f"{base_url}/_sandbox/{verb}",
        headers={"content-type": "application/json"},
        body=None if body is None else json.dumps(body).encode(),
        deadline_s=10,
    )
    if answer.status != 200:
        raise ReconcilerError(f"the embedded sandbox refused {verb}: {body}")
    return json.loads(answer.body)
