"""`reconcile provider check`: try a provider out, as the platform and as an attacker would."""

import os
from collections.abc import Sequence
from random import SystemRandom

import click

from reconciler.cli.command_line import settings_here
from reconciler.cli.event_loop import Watch, run_watched
from reconciler.cli.signals import Interrupted
from reconciler.cli.verb import DONE, FAILED, verb
from reconciler.core.clock import SystemClock
from reconciler.core.errors import ReconcilerError
from reconciler.core.extras import require_extra
from reconciler.project.secret import secret_sources
from reconciler.project.sections import ProviderSection, SecretSource
from reconciler.project.settings import ProjectSettings
from reconciler.providers.check.bench import Check, SignInSubject, Subject
from reconciler.providers.check.report import document, junit, line, summary
from reconciler.providers.check.run import Report, Result, run, selected
from reconciler.reports.formats import find_formats
from reconciler.reports.report import Page
from reconciler.services.transport import HttpTransport


@verb("check", report=None)
@click.argument("url")
@click.option("--provider", metavar="NAME", help="Use `providers.NAME` for options that are not given.")
@click.option("--signing-secret-env", metavar="VAR", help="Variable that holds the signing secret.")
@click.option("--webhook-secret-env", metavar="VAR", help="Variable that holds the webhook secret.")
@click.option("--encoding", type=click.Choice(["hex", "base64"]), help="Encoding of signatures. [hex]")
@click.option("--costs-path", metavar="PATH", help="Path of the billing API.")
@click.option("--auth-url", metavar="URL", help="The sign-in service that the provider was set up with.")
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
def command(
    url: str,
    provider: str | None,
    signing_secret_env: str | None,
    webhook_secret_env: str | None,
    encoding: str | None,
    costs_path: str | None,
    auth_url: str | None,
    user: str | None,
    organization: str | None,
    regions: str,
    only: str | None,
    timeout: float,
    ready_timeout: float,
    output: str,
) -> int:
    """Check whether the provider at URL does what the API document demands. Meant for a staging address.

    It makes resources whose ids begin with `check-`, and deletes them in the end. Exit codes: 0 all passed,
    1 something failed. See docs/provider-check.md.
    """
    if output == "junit":
        require_extra("provider", "`--output junit`")
    try:
        HttpTransport(url)
    except ReconcilerError as problem:
        raise click.UsageError(f"{problem.message}\n{problem.help}") from None
    checks = selected(only)
    if not checks:
        raise click.UsageError(f"--only: no check is called `{only}`")
    known, found = _section(provider)
    signing = _from_env(signing_secret_env, "--signing-secret-env")
    signing = signing or _current(known.signing_secret_from, found)
    if signing is None:
        raise click.UsageError("the signing secret is missing: give --signing-secret-env or --provider")
    codes = tuple(code.strip() for code in regions.split(","))
    if len(codes) != 2 or not all(codes) or codes[0] == codes[1]:
        raise click.UsageError("--regions: give two different codes, such as ams,fra")
    sign_in_at = auth_url or (known.auth_url if user else None)
    subject = Subject(
        base_url=url,
        signing_secret=signing,
        webhook_secret=_from_env(webhook_secret_env, "--webhook-secret-env")
        or _current(known.webhook_secret_from, found),
        encoding="base64" if (encoding or known.encoding) == "base64" else "hex",
        costs_path=_path(costs_path or known.costs_path),
        sign_in=SignInSubject(sign_in_at, user or "check-user") if sign_in_at else None,
        organization_id=organization or "check-organization",
        user_id=user or "check-user",
        regions=(codes[0], codes[1]),
        deadline_s=timeout,
        ready_s=ready_timeout,
    )
    report = Report(url)
    code = _run(subject, checks, report, output)
    _tell(report, output)
    return code or (DONE if report.passed else FAILED)


def _run(subject: Subject, checks: Sequence[Check], report: Report, output: str) -> int:
    """Fill `report`; 0, or the exit code of the signal that cut it short."""
    quiet = output == "text" and os.isatty(1)

    def begins(check: Check) -> None:
        if not quiet:
            click.echo(f"checking {check.title}", err=True)

    def ends(result: Result) -> None:
        if output == "text":
            click.echo(line(result))

    async def work(_: Watch) -> None:
        await run(
            subject, checks, report, clock=SystemClock(), random=SystemRandom(), begins=begins, ends=ends
        )

    try:
        run_watched(work)
    except Interrupted as interrupted:
        click.echo("interrupted: what was made is deleted", err=True)
        return interrupted.code
    return 0


def _tell(report: Report, output: str) -> None:
    if output == "json":
        click.echo(find_formats()["json"].render(Page(document=document(report))), nl=False)
    elif output == "junit":
        click.echo(junit(report), nl=False)
    click.echo(summary(report), err=output != "text")


def _section(name: str | None) -> tuple[ProviderSection, ProjectSettings | None]:
    """`providers.NAME` of the settings, and those. Raises UsageError when it is not there."""
    if name is None:
        return ProviderSection(), None
    config = settings_here(manifests_only=True)
    if name not in config.settings.providers:
        raise click.UsageError(f"--provider: reconcile.yaml has no `providers.{name}`")
    return config.settings.providers[name], config


def _from_env(name: str | None, option: str) -> bytes | None:
    if name is None:
        return None
    if not os.environ.get(name):
        raise click.UsageError(f"{option}: the variable {name} is not set, or empty")
    return os.environb[name.encode()]


def _current(
    source: SecretSource | Sequence[SecretSource] | None, found: ProjectSettings | None
) -> bytes | None:
    """The secret in use; while rotating, that is the first."""
    if source is None or found is None:
        return None
    first = source[0] if isinstance(source, Sequence) else source
    return secret_sources(found, runs_programs=True).value(first.ref(), lambda ref: None).reveal().encode()


def _path(path: str | None) -> str | None:
    if path is not None and not path.startswith("/"):
        raise click.UsageError("--costs-path: it begins with a slash")
    return path
