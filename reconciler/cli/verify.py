"""`reconcile verify`: whether a bundle is what was written, offline."""

import os
from pathlib import Path

import click

from reconciler.cli import options
from reconciler.cli.output import emit
from reconciler.cli.verb import DONE, FAILED, verb
from reconciler.core.errors import ReconcilerError
from reconciler.evidence.archive import MOST_BYTES, Damaged
from reconciler.evidence.verify import damaged_page, verified_page, verify
from reconciler.project.files import read_file


@verb("verify")
@click.argument("file", type=options.FILE, metavar="FILE")
@click.option("--head", default="", metavar="HEAD", help="The state's head that its apply printed.")
@click.option(
    "--allowed-signers",
    type=options.FILE,
    metavar="FILE",
    help="Who may sign, in the format of ssh's allowed_signers.",
)
def command(file: Path, head: str, allowed_signers: Path | None) -> int:
    """Check a file of `reconcile bundle`: every byte of it, the chain of hashes, plan and signatures.

    Asks neither the state nor the platform. With --head, it is proved that the journal is the one of which
    apply printed that head; with --allowed-signers, that the approvals are theirs. Exits 1 if any part is not
    what was written, and names it.
    """
    if not file.is_file():
        raise ReconcilerError(f"{file} is not a file")
    if file.stat().st_size > MOST_BYTES:
        raise ReconcilerError(f"{file} is larger than {MOST_BYTES >> 20} MiB: no bundle is")

    signers = read_file(allowed_signers) if allowed_signers is not None else None
    try:
        found = verify(read_file(file), head=head, signers=signers, env=os.environ)
    except Damaged as damaged:
        emit(damaged_page(str(file), damaged))
        return FAILED
    emit(verified_page(str(file), found, has_head=bool(head)))
    return DONE
