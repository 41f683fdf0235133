"""What a controller hears on HTTP: that a branch moved, and that an extension changed. Each hook is signed.

A git hook has the source fetched; nothing else of it is used. A provider's webhook orders a look at the
scopes of its extension; 202 means that the order is in the state. Only the log says why one is refused.

Source: platform API, 2.9 and 6.1; GitHub, "Validating webhook deliveries"; GitLab and Gitea, "Webhooks".
"""

import hmac
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Any

import anyio
import structlog
from anyio import to_thread
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from reconciler.controller import memory
from reconciler.controller.loop import Controller, Loaded
from reconciler.controller.status import scopes_of
from reconciler.controller.web import HOOKS
from reconciler.core.clock import SystemClock
from reconciler.core.errors import ReconcilerError
from reconciler.core.listening import Allowance
from reconciler.core.reporter import Reporter
from reconciler.core.steps import SecretRef
from reconciler.policies.provider import KIND as PROVIDER
from reconciler.project.open import Options, open_project
from reconciler.services import signing
from reconciler.services.machines.wire.extension import ACTIONS
from reconciler.state.store import State

_BODY_S = 10.0
_PER_S = 5.0  # hooks of one address
_GIT = {"github": ("x-hub-signature-256", "sha256="), "gitea": ("x-gitea-signature", "")}
_ONE = anyio.CapacityLimiter(1)  # strangers ask, too: their requests may not take all threads
_clock, _log = SystemClock(), structlog.get_logger("reconciler.controller")

Take = Callable[[Controller, Loaded, Request, bytes], Awaitable[int]]  # gives the status of the answer


def routes(controllers: Sequence[Controller]) -> Sequence[Route]:
    """The addresses of hooks. A hook goes to all controllers, and counts for those that know its sender."""
    allowance = Allowance(_PER_S, _clock)

    async def answer(take: Take, request: Request) -> Response:
        if not allowance.spend(request.client.host if request.client else ""):
            return Response(status_code=429)
        try:
            with anyio.fail_after(_BODY_S):
                body = await request.body()
        except (TimeoutError, ClientDisconnect):
            return Response(status_code=400)
        answers = {401}
        for controller in controllers:
            try:
                if (loaded := controller.loaded) is not None:
                    answers.add(await take(controller, loaded, request, body))
            except signing.NotAuthentic as refused:
                _log.warning("hook.refused", why=refused.why)
            except ReconcilerError as failure:
                _log.warning("hook.lost", reason=failure.message)
                answers.add(503)  # the sender repeats it
        return Response(status_code=503 if 503 in answers else min(answers))

    route = partial(Route, methods=["POST"], max_body_size=signing.MAX_SIGNED)
    git, webhook = partial(answer, _take_git), partial(answer, _take_webhook)
    return [route(HOOKS + "git/{host}", git), route(HOOKS + "providers/{name}", webhook)]


async def _take_git(controller: Controller, loaded: Loaded, request: Request, body: bytes) -> int:
    host, headers = request.path_params["host"], request.headers
    source = loaded.section.hooks.git.get(host)
    secret = await _secret(loaded, source.ref() if source is not None else None)
    if host in _GIT:
        name, prefix = _GIT[host]
        given = [value.removeprefix(prefix) for value in headers.getlist(name) if value.startswith(prefix)]
        signing.check_signature(given, body, [secret], "hex")
    elif not hmac.compare_digest(headers.get("x-gitlab-token", "").encode("latin-1"), secret):
        raise signing.NotAuthentic("the token is another one")
    controller.hurry(fetch=True)
    return 202


async def _take_webhook(controller: Controller, loaded: Loaded, request: Request, body: bytes) -> int:
    name, policies = request.path_params["name"], loaded.desired.policies
    providers = {each.address.name: each for each in policies if each.address.kind == PROVIDER.name}
    provider = providers.get(name) if loaded.section.hooks.providers else None
    secret = await _secret(loaded, PROVIDER.webhook_secret(provider) if provider is not None else None)
    given, encoding = request.headers.getlist(signing.HEADER), providers[name].spec.webhook_encoding
    now_s, any_body = _clock.now().timestamp(), lambda digest: True  # `hear` refuses what came before
    said = signing.verify_webhook(given, body, [secret], now=now_s, claim=any_body, encoding=encoding)
    resource = said.get("resource") if said is not None and said.get("action") in ACTIONS else None
    if not isinstance(resource, dict):
        return 400
    options = Options(loaded.state_url, read_only=True, take_signals=False)
    async with open_project(loaded.config, options, Reporter(), loaded.desired.resources) as project:
        scopes = _scopes(name, resource, loaded, await project.store.load())
        await memory.hear(project.store, project.actor(), scopes, sha256(body).hexdigest(), now_s)
    controller.hurry()
    return 202


async def _secret(loaded: Loaded, ref: SecretRef | None) -> bytes:
    """Raises NotAuthentic where none is expected, and SecretUnavailable."""
    if ref is None:
        raise signing.NotAuthentic("nobody expects it")
    value = partial(loaded.sources.value, ref, lambda ref: None)
    return (await to_thread.run_sync(value, abandon_on_cancel=True, limiter=_ONE)).reveal().encode()


def _scopes(name: str, resource: Mapping[str, Any], loaded: Loaded, state: State) -> Collection[str]:
    """The scopes of the provider's extensions with this id, or else with this name, or else of all."""
    recorded = [record for record in state.records.values() if record.applied.get("provider") == name]
    names = ((each, each.applied.get("replacement_name") or each.applied.get("name")) for each in recorded)
    same_id = {record.scope for record in recorded if record.id == resource.get("id")}
    same_name = {record.scope for record, known in names if known == resource.get("name")}
    scopes, resources = scopes_of(state, loaded.desired.resources), loaded.desired.resources
    every = {scopes[each.address] for each in resources if getattr(each.spec, "provider", None) == name}
    return same_id or same_name or every.union(record.scope for record in recorded)
