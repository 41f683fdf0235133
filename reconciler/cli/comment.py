"""`reconcile comment`: a report as a comment on its pull request, and as the status of its commit."""

import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from reconciler.cli import options
from reconciler.cli.command_line import links_here
from reconciler.cli.event_loop import run
from reconciler.cli.output import emit
from reconciler.cli.verb import verb
from reconciler.core.errors import ReconcilerError
from reconciler.hosts.job import Given, job_of
from reconciler.hosts.publish import Shown, show
from reconciler.project.files import read_file
from reconciler.reports.documents import MOST_BYTES, read_report
from reconciler.reports.report import Page

_MOST_EVENT = 32 * 1024 * 1024
_ACTIONS = {
    "created": "made the comment",
    "updated": "updated the comment",
    "unchanged": "the comment is as it should be:",
    "stale": "not the newest commit; nothing newer was replaced",
}


@verb("comment")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=options.FILE)
@click.option("--host", default="", metavar="github|gitlab|gitea", help="Git host; else by CI's variables.")
@click.option("--repository", default="", metavar="OWNER/NAME", help="Of the pull request.")
@click.option("--pull-request", "number", type=click.IntRange(min=1), default=None, metavar="NUMBER")
@click.option("--commit", default="", metavar="SHA", help="The pull request's head that the report is about.")
@click.option("--api", default="", metavar="URL", help="Address of the host's API.")
@click.option(
    "--token-env",
    "token_variable",
    default="",
    metavar="VARIABLE",
    help="The variable with the token; else GITHUB_TOKEN, GITLAB_TOKEN or GITEA_TOKEN.",
)
@click.option("--author", default="", metavar="NAME", help="Whom the token writes as, where nobody can ask.")
@click.option("--details-url", default="", metavar="URL", help="Where all of the report is; else CI's run.")
@click.option(
    "--env",
    default="",
    metavar="NAME",
    envvar="RECONCILE_ENV",
    help="Environment of a report that does not say it, such as that of validate.",
)
@click.option("--new", "keeps_history", is_flag=True, help="Write a new comment, and fold the one before.")
@click.option("--no-status", is_flag=True, help="Set no status of the commit.")
def command(
    files: Sequence[Path],
    number: int | None,
    details_url: str,
    env: str,
    author: str,
    keeps_history: bool,
    no_status: bool,
    **given: Any,
) -> None:
    """Show a report in its pull request: as one comment for each environment, updated in place, and as the
    commit status `reconcile/ENV`.

    FILE is the JSON that validate, plan, drift or apply wrote (-o json, --report json=FILE); several make one
    comment. Host, repository, number, address and token come from the variables of GitHub Actions,
    GitLab CI or Gitea Actions. A comment about a newer commit is left alone (`stale`).
    """
    found = [read_report(str(file), read_file(file, MOST_BYTES + 1)) for file in files]
    event = b""  # the JSON of what started the job, from GitHub and Gitea
    with suppress(ReconcilerError):
        event = read_file(Path(os.environ.get("GITHUB_EVENT_PATH") or os.devnull), _MOST_EVENT)
    job = job_of(os.environ, event, Given(**given, number=number or 0))
    links = links_here()
    links = replace(links, revision=job.commit or links.revision)
    reports = [replace(report, links=links) for report in found]

    async def work() -> Shown:
        return await show(
            job,
            reports,
            env=env,
            author=author,
            details_url=details_url or job.run_url,
            nonce=secrets.token_hex(8),
            keeps_history=keeps_history,
            sets_status=not no_status,
            tell=options.make_reporter().note,
        )

    done = run(work)
    document = {
        "environment": done.environment,
        "host": job.host,
        "url": done.url or None,
        "action": done.action,
        "status": done.status,
    }
    where = f" {done.url}" if done.url else ""
    text = f"reconcile/{done.environment}: {_ACTIONS[done.action]}{where}\n"
    emit(Page(document=document, text=text + (f"Status: {done.status}\n" if done.status else "")))
