"""Environment variables: what they say instead of `reconcile.yaml`, and which hold secrets."""

import re
from collections.abc import Mapping

from reconciler.core.errors import ReconcilerError
from reconciler.core.nearest import did_you_mean
from reconciler.core.state_url import beside
from reconciler.project.settings.sections import (
    ALLOWED,
    EXTENDED,
    URL,
    SecretSource,
    Settings,
    known_capabilities,
)


def with_variables(settings: Settings, env: Mapping[str, str], environment: str) -> Settings:
    """`settings` with what variables say."""
    platform, execution = settings.platform, settings.execution
    if env.get("RECONCILE_BASE_URL"):
        if not re.match(URL, env["RECONCILE_BASE_URL"]):
            raise ReconcilerError(f"RECONCILE_BASE_URL: expected {ALLOWED[URL]}")
        platform = platform.model_copy(update={"base_url": env["RECONCILE_BASE_URL"]})
    if env.get("RECONCILE_CAPABILITIES"):
        names = [name.strip() for name in env["RECONCILE_CAPABILITIES"].split(",") if name.strip()]
        unknown = sorted(set(names) - known_capabilities() - {EXTENDED})
        if unknown:
            raise ReconcilerError(
                f"RECONCILE_CAPABILITIES names unknown capabilities: {', '.join(unknown)}",
                help=did_you_mean(unknown[0], [EXTENDED, *known_capabilities()])
                or f"known are: extended, {', '.join(sorted(known_capabilities()))}",
            )
        platform = platform.model_copy(update={"capabilities": names})
    if env.get("RECONCILE_RATE_LIMIT_LOOPBACK"):
        limited = env["RECONCILE_RATE_LIMIT_LOOPBACK"] != "0"
        platform = platform.model_copy(update={"rate_limit_loopback": limited})
    if env.get("RECONCILE_SETTLE_S"):
        execution = execution.model_copy(update={"settle_s": _seconds(env, "RECONCILE_SETTLE_S")})
    state = settings.state
    if env.get("RECONCILE_STATE"):
        state = state.model_copy(update={"url": beside(env["RECONCILE_STATE"], environment)})
    return settings.model_copy(update={"platform": platform, "execution": execution, "state": state})


def _seconds(env: Mapping[str, str], name: str) -> float:
    try:
        value = float(env[name])
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise ReconcilerError(f"{name} must be a number of seconds, not `{env[name]}`")
    return value


def credentials(settings: Settings) -> frozenset[str]:
    """Variables with a token of any environment, an identity that decrypts, or what a notification needs."""
    platforms = [settings.platform, *(each.platform for each in settings.environments.values())]
    states = [settings.state, *(each.state for each in settings.environments.values())]
    identities = [settings.secrets.age_identity_from, *(each.identity_from for each in states)]
    notified = (source for each in settings.notify for source in (each.url_from, each.secret_from))
    named = (each.env for each in (*identities, *notified) if each is not None)
    return frozenset(filter(None, (*named, *(each.token_from.env for each in platforms))))


def secret_variables(settings: Settings) -> frozenset[str]:
    sources: list[SecretSource | None] = []
    for each in settings.providers.values():
        signing = each.signing_secret_from
        sources += signing if isinstance(signing, list) else [signing]
        sources += [each.webhook_secret_from, each.client_secret_from]
    named = frozenset(source.env for source in sources if source is not None and source.env is not None)
    return named | credentials(settings)
