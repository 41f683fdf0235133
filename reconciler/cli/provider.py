"""`reconcile provider`: run the reference provider, and check any provider."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import click

from reconciler.cli import options
from reconciler.cli.command_line import settings_here
from reconciler.cli.group import Group
from reconciler.cli.signals import listening
from reconciler.cli.verb import verb
from reconciler.core.errors import ReconcilerError
from reconciler.core.extras import require_extra
from reconciler.core.steps import SecretRef
from reconciler.project.secret import secret_sources
from reconciler.project.sections import ProviderSection, SecretSource
from reconciler.project.settings import ProjectSettings
from reconciler.project.store import require_private

_MORE = {"check": "try a provider out, as the platform and as an attacker would"}


@click.group("provider", cls=Group, late=_MORE)
def command() -> None:
    """Build and prove extension providers. See docs/providers.md."""


@verb("serve", of=command, report=None, short_help="Run the reference provider.")
@click.argument("name")
@click.option(
    "--postgres-from",
    required=True,
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
@click.option(
    "--signing-secret-from",
    "signing",
    multiple=True,
    metavar="SOURCE",
    help="Secret of the platform's requests; while rotating, given twice: the new one first.",
)
@click.option("--encoding", type=click.Choice(["hex", "base64"]), help="Encoding of signatures. [hex]")
@click.option("--webhook-url", metavar="URL", help="Where the platform takes webhooks.")
@click.option("--webhook-secret-from", metavar="SOURCE", help="Secret to sign webhooks with.")
@click.option("--auth-url", metavar="URL", help="The platform's sign-in service.")
@click.option("--client-id", metavar="ID", help="This provider, as a client of the sign-in service.")
@click.option("--client-secret-from", metavar="SOURCE", help="That client's secret.")
@click.option("--costs-path", metavar="PATH", help="Path of the billing API. [/costs]")
@click.option(
    "--answer-s", type=click.FloatRange(0, 60), default=5.0, help="Answer a provisioning after this long."
)
def serve(
    name: str,
    postgres_from: str,
    port: int,
    host: str,
    db: Path | None,
    proxies: Sequence[str],
    workers: int,
    public_url: str | None,
    signing: Sequence[str],
    encoding: str | None,
    webhook_url: str | None,
    webhook_secret_from: str | None,
    auth_url: str | None,
    client_id: str | None,
    client_secret_from: str | None,
    costs_path: str | None,
    answer_s: float,
) -> int:
    """Run the reference provider NAME: databases and roles in a PostgreSQL server.

    Addresses and secrets are those of `providers.NAME` in reconcile.yaml; options go before them.
    The first line on stdout is `listening on URL`. It ends with INT (exit code 130) or TERM (143).
    """
    require_extra("provider", "the reference provider")

    from reconciler.providers.kit import ProviderSettings, SignInSettings, create_app
    from reconciler.providers.kit.reference import PostgresProvider
    from reconciler.providers.kit.server import bound
    from reconciler.providers.kit.server import serve as serve_provider
    from reconciler.providers.kit.store import Store

    def chosen(option: str | None, setting: SecretSource | None) -> SecretRef | None:
        return _parse_source(option) if option else setting.ref() if setting is not None else None

    def secret(source: SecretRef) -> str:
        """Raises SecretUnavailable naming the source."""
        return secrets.value(source, lambda ref: None).reveal()

    config = settings_here(manifests_only=True)
    secrets = secret_sources(config, runs_programs=True)
    section = config.settings.providers.get(name, ProviderSection())
    declared = section.signing_secret_from or []
    written = declared if isinstance(declared, list) else [declared]
    sources = [_parse_source(each) for each in signing] or [each.ref() for each in written]
    if not sources:
        raise ReconcilerError(
            f"no secret to verify the platform's requests to `{name}` with",
            help=f"set `providers.{name}.signing_secret_from` in reconcile.yaml, or --signing-secret-from",
        )
    webhook_source = chosen(webhook_secret_from, section.webhook_secret_from)
    client_source = chosen(client_secret_from, section.client_secret_from)
    auth_url, client_id = auth_url or section.auth_url, client_id or section.client_id
    sign_in = None
    if auth_url or client_id or client_source:
        if not (auth_url and client_id and client_source):
            raise ReconcilerError(
                "sign-in needs an address, a client id and its secret",
                help="--auth-url, --client-id and --client-secret-from, or none of them",
            )
        sign_in = SignInSettings(auth_url, client_id, secret(client_source))
    functions = PostgresProvider(secret(_parse_source(postgres_from)), name)
    signing_secrets = [secret(each).encode() for each in sources]
    webhook_secret = secret(webhook_source).encode() if webhook_source else None
    encoding = encoding or section.encoding
    _log_warnings()
    with bound(host, port) as (listener, url):
        settings = ProviderSettings(
            public_url=public_url or section.public_url or url,
            store=db or _own_store(config, name),
            signing_secrets=signing_secrets,
            encoding="base64" if encoding == "base64" else "hex",
            webhook_url=webhook_url or section.webhook_url,
            webhook_secret=webhook_secret,
            webhook_encoding="base64" if encoding == "base64" else "hex",
            sign_in=sign_in,
            costs_path=costs_path or section.costs_path or "/costs",
            name=name,
            answer_s=answer_s,
        )
        for database in anyio.run(functions.check):
            click.echo(
                f"warning: every role may connect to the database `{database}`, and read the names of all: "
                f"REVOKE CONNECT ON DATABASE {database} FROM PUBLIC",
                err=True,
            )
        Store(settings.store).close()  # made, or refused, before anything is answered
        number = serve_provider(
            listener,
            lambda: create_app(settings, functions),
            settings.prefix,
            workers,
            lambda: listening(url),
            proxies,
        )
    return 128 + number


def _own_store(config: ProjectSettings, name: str) -> Path:
    require_private(config.root, config.private)
    return config.private / f"provider-{name}.db"


def _parse_source(source: str) -> SecretRef:
    """`env:NAME` or `file:PATH`. A file is looked for where the project's root is, as in reconcile.yaml."""
    kind, _, name = source.partition(":")
    if kind == "env" and name:
        return SecretRef("env", name)
    if kind == "file" and name:
        return SecretRef("file", name)
    # What stands there may be the secret itself: it is not repeated.
    raise click.UsageError("a secret's source is written as env:NAME or file:PATH")


def _log_warnings() -> None:
    """Warnings and errors to stderr, unless `-v` asked for more already."""
    import structlog

    from reconciler.cli.logs import log_to_stderr

    if not structlog.is_configured():
        log_to_stderr(debug=False)
