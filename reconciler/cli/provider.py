"""`reconcile provider serve` and `check`: the reference provider, and a test of any provider.

Both take from `providers.NAME` of reconcile.yaml whatever no option says.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from random import SystemRandom
from typing import Any

import anyio
import click
from pydantic import ValidationError

from reconciler.cli import options
from reconciler.cli.command_line import settings_here
from reconciler.cli.event_loop import Watch, run_watched
from reconciler.cli.group import Group
from reconciler.cli.signals import Interrupted, listening
from reconciler.cli.verb import DONE, FAILED, verb
from reconciler.core.clock import SystemClock
from reconciler.core.errors import ReconcilerError, SecretUnavailable
from reconciler.core.extras import require_extra
from reconciler.core.listening import listening_at
from reconciler.project.secret import secret_sources
from reconciler.project.sections import ProviderSection, SecretSource
from reconciler.project.store import require_private
from reconciler.providers.check import run as checks
from reconciler.providers.check.bench import Check, SignInSubject, Subject
from reconciler.reports.escape import visible_lines
from reconciler.reports.formats import find_formats
from reconciler.reports.report import Page
from reconciler.secrets.sources import Sources
from reconciler.services.transport import HttpTransport


class _Source(click.ParamType[SecretSource]):
    """`env:NAME` or `file:PATH`, after `prefix`. As in reconcile.yaml, a file is relative to the root."""

    name = "source"

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> SecretSource:
        kind, _, name = f"{self._prefix}{value}".partition(":")
        try:
            return SecretSource.model_validate({kind: name} if kind in ("env", "file") else {})
        except ValidationError:
            # The text may be the secret itself, so the message does not repeat it.
            raise click.UsageError("a secret's source is written as env:NAME or file:PATH") from None


# Each comes before the field of the same name in `providers.NAME`.
_SECTION = (
    click.Option(
        ["--signing-secret-from"],
        type=_Source(),
        multiple=True,
        metavar="SOURCE",
        help="Secret of the platform's requests; while rotating, given twice: the new one first.",
    ),
    click.Option(
        ["--webhook-secret-from"],
        type=_Source(),
        metavar="SOURCE",
        help="Secret to sign webhooks with.",
    ),
    click.Option(["--encoding"], type=click.Choice(["hex", "base64"]), help="Encoding of signatures. [hex]"),
    click.Option(["--auth-url"], metavar="URL", help="The platform's sign-in service."),
    click.Option(["--costs-path"], metavar="PATH", help="Path of the billing API. [serve: /costs]"),
)


@click.group("provider", cls=Group)
def command() -> None:
    """Build and prove extension providers. See docs/providers.md."""


@verb("serve", *_SECTION, of=command, report=None, short_help="Run the reference provider.")
@click.argument("name")
@click.option(
    "--postgres-from",
    required=True,
    type=_Source(),
    metavar="SOURCE",
    help="Connection string of the PostgreSQL server: env:NAME or file:PATH.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port; 0 picks a free one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--db", type=options.FILE, help="Store. [.reconcile/provider-NAME.db]")
@click.option(
    "--proxy",
    "proxies",
    multiple=True,
    metavar="ADDRESS",
    help="Address or network of a proxy in front, whose X-Forwarded-For is believed; repeatable.",
)
@click.option(
    "--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="How many processes."
)
@click.option("--public-url", metavar="URL", help="The address that the platform calls. [where it listens]")
@click.option("--webhook-url", metavar="URL", help="Where the platform takes webhooks.")
@click.option("--client-id", metavar="ID", help="This provider, as a client of the sign-in service.")
@click.option("--client-secret-from", type=_Source(), metavar="SOURCE", help="That client's secret.")
@click.option(
    "--answer-s", type=click.FloatRange(0, 60), default=5.0, help="Answer a provisioning after this long."
)
def serve(
    name: str,
    postgres_from: SecretSource,
    port: int,
    host: str,
    db: Path | None,
    proxies: Sequence[str],
    workers: int,
    answer_s: float,
    **settings: Any,
) -> int:
    """Run the reference provider NAME: databases and roles in a PostgreSQL server.

    Addresses and secrets are those of `providers.NAME` in reconcile.yaml; options go before them.
    The first line on stdout is `listening on URL`. It ends with INT (exit code 130) or TERM (143).
    """
    require_extra("provider", "the reference provider")
    import structlog

    from reconciler.cli.progress import log_to_stderr
    from reconciler.providers.kit import ProviderSettings, SignInSettings, create_app  # all need the extra
    from reconciler.providers.kit.reference import PostgresProvider
    from reconciler.providers.kit.server import serve as serve_provider
    from reconciler.providers.kit.store import Store

    config = settings_here(manifests_only=True)
    secrets = secret_sources(config, runs_programs=True)
    section = _laid_over(config.settings.providers.get(name, ProviderSection()), settings)
    signing_secrets = [_revealed(secrets, source) for source in _signing(section)]
    if not signing_secrets:
        raise ReconcilerError(
            f"no secret to verify the platform's requests to `{name}` with",
            help=f"set `providers.{name}.signing_secret_from` in reconcile.yaml, or --signing-secret-from",
        )
    sign_in = None
    if section.auth_url or section.client_id or section.client_secret_from:
        if not (section.auth_url and section.client_id and section.client_secret_from):
            raise ReconcilerError(
                "sign-in needs an address, a client id and its secret",
                help="--auth-url, --client-id and --client-secret-from, or none of them",
            )
        client_secret = _revealed(secrets, section.client_secret_from).decode()
        sign_in = SignInSettings(section.auth_url, section.client_id, client_secret)
    functions = PostgresProvider(_revealed(secrets, postgres_from).decode(), name)
    webhook = section.webhook_secret_from
    webhook_secret = _revealed(secrets, webhook) if webhook is not None else None
    if not structlog.is_configured():  # warnings and errors are logged, unless `-v` asked for more already
        log_to_stderr(debug=False)
    if db is None:
        require_private(config.root, config.private)
    with listening_at(host, port) as (listener, url):
        provider = ProviderSettings(
            public_url=section.public_url or url,
            store=db or config.private / f"provider-{name}.db",
            signing_secrets=signing_secrets,
            encoding=section.encoding,
            webhook_url=section.webhook_url,
            webhook_secret=webhook_secret,
            webhook_encoding=section.encoding,
            sign_in=sign_in,
            costs_path=section.costs_path or "/costs",
            name=name,
            answer_s=answer_s,
        )
        for database in anyio.run(functions.check):
            click.echo(
                f"warning: every role may connect to the database `{database}`, and read the names of all: "
                f"REVOKE CONNECT ON DATABASE {database} FROM PUBLIC",
                err=True,
            )
        Store(provider.store).close()  # creates or refuses the file before the first request
        number = serve_provider(
            listener,
            lambda: create_app(provider, functions),
            provider.prefix,
            workers,
            lambda: listening(url),
            proxies,
        )
    return 128 + number


@verb(
    "check",
    *_SECTION,
    of=command,
    report=None,
    short_help="Try a provider out, as platform and as attacker.",
)
@click.argument("url")
@click.option("--provider", metavar="NAME", help="Use `providers.NAME` for options that are not given.")
@click.option("--signing-secret-env", type=_Source("env:"), hidden=True)
@click.option("--webhook-secret-env", type=_Source("env:"), hidden=True)
@click.option("--user", metavar="ID", help="Who signs in there. [check-user]")
@click.option("--organization", metavar="ID", help="That user's organization. [check-organization]")
@click.option(
    "--regions", default="ams,fra", show_default=True, metavar="A,B", help="Two regions that it knows."
)
@click.option("--only", metavar="GLOB", help="Checks by group or title, such as `refusals` or `*DELETE*`.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Longest time for one request.",
)
@click.option(
    "--ready-timeout",
    type=click.FloatRange(min=0),
    default=240.0,
    show_default=True,
    metavar="SECONDS",
    help="Longest time until a resource is ready.",
)
@click.option(
    "-o", "--output", type=click.Choice(["text", "json", "junit"]), default="text", show_default=True
)
def check(
    url: str,
    provider: str | None,
    signing_secret_env: SecretSource | None,
    webhook_secret_env: SecretSource | None,
    auth_url: str | None,
    user: str | None,
    organization: str | None,
    regions: str,
    only: str | None,
    timeout: float,
    ready_timeout: float,
    output: str,
    **settings: Any,
) -> int:
    """Check whether the provider at URL does what the API document demands. Meant for a staging address.

    It makes resources whose ids begin with `check-`, and deletes them in the end. Exit codes: 0 all passed,
    1 something failed. See docs/provider-check.md.
    """
    if output == "junit":
        require_extra("provider", "`--output junit`")
    _refuse_unusable(url)
    selected = checks.selected(only)
    if not selected:
        raise click.UsageError(f"--only: no check is called `{only}`")
    config = settings_here(manifests_only=True)
    named = {"signing_secret_from": signing_secret_env, "webhook_secret_from": webhook_secret_env}
    if provider is not None and provider not in config.settings.providers:
        raise click.UsageError(f"--provider: reconcile.yaml has no `providers.{provider}`")
    section = config.settings.providers.get(provider or "", ProviderSection())
    section = _laid_over(_laid_over(section, named), settings)
    signing, webhook = next(iter(_signing(section)), None), section.webhook_secret_from
    if signing is None:
        raise click.UsageError("the signing secret is missing: give --signing-secret-from or --provider")
    secrets = secret_sources(config, runs_programs=True)
    try:
        signing_secret = _revealed(secrets, signing)
        webhook_secret = _revealed(secrets, webhook) if webhook is not None else None
    except SecretUnavailable as missing:
        raise click.UsageError(missing.message) from None
    codes = tuple(code.strip() for code in regions.split(","))
    if len(codes) != 2 or not all(codes) or codes[0] == codes[1]:
        raise click.UsageError("--regions: give two different codes, such as ams,fra")
    if section.costs_path is not None and not section.costs_path.startswith("/"):
        raise click.UsageError("--costs-path: it begins with a slash")
    sign_in_at = auth_url or (section.auth_url if user else None)
    if sign_in_at:
        _refuse_unusable(sign_in_at)
    subject = Subject(
        base_url=url,
        signing_secret=signing_secret,
        webhook_secret=webhook_secret,
        encoding=section.encoding,
        costs_path=section.costs_path,
        sign_in=SignInSubject(sign_in_at, user or "check-user") if sign_in_at else None,
        organization_id=organization or "check-organization",
        user_id=user or "check-user",
        regions=(codes[0], codes[1]),
        deadline_s=timeout,
        ready_s=ready_timeout,
    )
    report = checks.Report(url)
    code = _run(subject, selected, report, output)
    if output == "json":
        click.echo(find_formats()["json"].render(Page(document=checks.document(report))), nl=False)
    elif output == "junit":
        click.echo(checks.junit(report), nl=False)
    click.echo(visible_lines(checks.summary(report)), err=output != "text")
    return code or (DONE if report.passed else FAILED)


def _refuse_unusable(url: str) -> None:
    """Raises UsageError for an address that nothing may be sent to."""
    try:
        HttpTransport(url)
    except ReconcilerError as problem:
        raise click.UsageError(f"{problem.message}\n{problem.help}") from None


def _run(subject: Subject, selected: Sequence[Check], report: checks.Report, output: str) -> int:
    """Run the checks and fill `report`. Returns 0, or the exit code of the signal that interrupted them."""
    quiet = output == "text" and os.isatty(1)

    def begins(check: Check) -> None:
        if not quiet:
            click.echo(f"checking {check.title}", err=True)

    def ends(result: checks.Result) -> None:
        if output == "text":
            click.echo(visible_lines(checks.line(result)))

    async def work(_: Watch) -> None:
        await checks.run(
            subject, selected, report, clock=SystemClock(), random=SystemRandom(), begins=begins, ends=ends
        )

    try:
        run_watched(work)
    except Interrupted as interrupted:
        click.echo("interrupted: what was made is deleted", err=True)
        return interrupted.code
    return 0


def _laid_over(section: ProviderSection, settings: dict[str, Any]) -> ProviderSection:
    """`section` with the given options in place of its fields of the same names."""
    return section.model_copy(update={name: value for name, value in settings.items() if value})


def _signing(section: ProviderSection) -> Sequence[SecretSource]:
    """The sources of the signing secret, the current one first. There are two during a rotation."""
    sources = section.signing_secret_from or []
    return [sources] if isinstance(sources, SecretSource) else sources


def _revealed(secrets: Sources, source: SecretSource) -> bytes:
    """The value of a secret. Raises SecretUnavailable, which names the source."""
    return secrets.value(source.ref(), lambda ref: None).reveal().encode()
