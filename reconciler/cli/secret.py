"""`reconcile secret`: values for git (encrypt), and for reviewers (fingerprint)."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click
from msgspec.structs import replace

from reconciler.cli import options
from reconciler.cli.addresses import ADDRESS
from reconciler.cli.chosen_state import ChosenState
from reconciler.cli.command_line import of_this_run, settings_here
from reconciler.cli.group import Group
from reconciler.cli.output import emit
from reconciler.cli.signals import blocking
from reconciler.cli.verb import DONE, FAILED, argument, option, verb
from reconciler.core.advice import spell
from reconciler.core.errors import ReconcilerError, SecretUnavailable
from reconciler.core.model import Address
from reconciler.project.files import write_output
from reconciler.project.secret import Fingerprinted, fingerprints, refuse_other_files, secret_sources
from reconciler.reports.report import Page
from reconciler.secrets import age
from reconciler.secrets.sensitive import MAX_BYTES, as_value

_WORDS = {
    "same": "same",
    "differs": "differs",
    "not_set": "not set yet",
    "not_readable": "source not readable",
    "not_known": "not known yet",
}
_NO_ARGUMENT = (
    "an argument or option is unknown, and not repeated here: it may be the value. The value is read from "
    "standard input; one that was an argument is in the shell's history now: take another one"
)
_NO_RECIPIENTS = (
    "give --to age1…, or `secrets: {age_recipients: [age1…]}` in reconcile.yaml; "
    "`age-keygen -o FILE` makes a key, and prints its recipient"
)


@click.group("secret", cls=Group, moved={"keygen": "age-keygen -o FILE"})
def command() -> None:
    """Encrypt secret values for git, and compare them for a review. No value is ever printed."""


@verb("encrypt", of=command, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
@click.pass_context
def encrypt(
    context: click.Context,
    recipients: Sequence[str] = option(
        "--to", "age1…, ssh-ed25519 … or ssh-rsa …; repeatable", multiple=True, metavar="RECIPIENT"
    ),
    out: Path | None = option("--out", "Write FILE instead of stdout.", type=options.FILE),
) -> None:
    """Encrypt a value with age, for `value_from: {age: FILE}`.

    The value is read from standard input; on a terminal it is asked for, without echo. One final newline
    is not part of it. Recipients are those of `secrets.age_recipients` in reconcile.yaml, or of --to.
    A FILE that exists is replaced only if it is encrypted with age already.
    """
    if context.args:  # click would repeat them
        raise click.UsageError(_NO_ARGUMENT, context)
    chosen = list(recipients) or settings_here(manifests_only=True).settings.secrets.age_recipients
    if not chosen:
        raise ReconcilerError("no recipient is given", help=_NO_RECIPIENTS)
    age.encrypt(b"", chosen)  # a mistake is reported before a person types the value
    if out is not None:
        refuse_other_files(out)
    armored = age.encrypt(_read_value(), chosen)
    if out is not None:
        refuse_other_files(out)  # meanwhile
        write_output(out, armored.encode("ascii"), mode=0o600)
    document = {"file": str(out) if out else None, "recipients": chosen}
    if out is not None:
        emit(Page(document=document, text=f"{out}: encrypted to {', '.join(chosen)}\n"))
    else:
        emit(Page(document=document | {"armored": armored}, text=armored))


@verb("fingerprint", of=command)
def fingerprint(
    chosen: ChosenState,
    addresses: Sequence[Address] = argument(nargs=-1, metavar="[ADDRESS]...", type=ADDRESS),
) -> int:
    """Compare the values that the sources give now with those that were set, without showing either.

    Fingerprints are made with the project's own key, which is kept next to the state. Two runs with the same
    state give the same fingerprint for the same address and value, and for nothing else. Exit codes: 0, or
    1 when a source is not readable.
    """
    desired = chosen.load_desired()
    sources = secret_sources(chosen.config, (*desired.resources, *desired.policies))
    shown: Sequence[Fingerprinted] = chosen.use(
        lambda store: fingerprints(store, sources, desired.resources, desired.policies, addresses)
    )
    advised = of_this_run()
    shown = [replace(found, problem=spell(found.problem, found.advice, advised)) for found in shown]
    lines, documents = [], []
    for found in shown:
        why = f" ({found.problem})" if found.problem else ""
        lines.append(f"{found.address}  {found.fingerprint or '-'}  {_WORDS[found.comparison]}{why}\n")
        documents.append(
            {
                "address": str(found.address),
                "fingerprint": found.fingerprint,
                "comparison": found.comparison,
                **({"problem": found.problem} if found.problem else {}),
                **({"help": found.help} if found.help else {}),
            }
        )
    notices = "" if shown else "the manifests have no secret\n"
    emit(Page(document={"secrets": documents}, text="".join(lines), notices=notices))
    return FAILED if any(found.comparison == "not_readable" for found in shown) else DONE


def _read_value() -> bytes:
    """The value to encrypt. Raises ReconcilerError where no source could return it as a value."""
    with blocking():
        if sys.stdin.isatty():
            value = click.prompt("Value", hide_input=True, confirmation_prompt=True, err=True).encode()
        else:
            value = sys.stdin.buffer.read(MAX_BYTES + 1)
    try:
        as_value(value, "the value on standard input")
    except SecretUnavailable as unfit:
        message, help = unfit.message, unfit.help
    else:
        return bytes(value)
    raise ReconcilerError(message, help=help)
