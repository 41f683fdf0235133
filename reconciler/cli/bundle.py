"""`reconcile bundle`: all that the state proves of one run, as one file."""

from pathlib import Path

import click

from reconciler.cli import options
from reconciler.cli.chosen_state import ChosenState
from reconciler.cli.output import emit
from reconciler.cli.verb import DONE, verb
from reconciler.core.advice import command as advised
from reconciler.evidence.archive import digest
from reconciler.evidence.bundle import NotBundled, bundle
from reconciler.planning.saved import load_saved
from reconciler.project.files import read_file, write_new
from reconciler.project.history import find_run
from reconciler.reports.report import Page
from reconciler.state import is_encrypted, movable_of
from reconciler.state.spooling import Spooling


@verb("bundle", *options.ON_STATE)
@click.argument("run", metavar="RUN")
@click.option("--out", type=options.FILE, required=True, metavar="FILE", help="Where to.")
@click.option(
    "--plan",
    "plan_file",
    type=options.FILE,
    metavar="FILE",
    help="The plan that it carried out, saved by `plan --out`, to be part of the bundle.",
)
@click.option("--head", default="", metavar="HEAD", help="The state's head that its apply printed.")
def command(run: str, out: Path, plan_file: Path | None, head: str, chosen: ChosenState) -> int:
    """Write what the state's journal proves of a run: one file, which `reconcile verify` checks offline.

    RUN is the id of a run, or its beginning; `history` lists them. The bundle holds the digests of manifests
    and plan, approvals, every call and its outcome, and the chain of hashes up to the state's head. Reads the
    state only.
    """

    async def work(store: Spooling) -> tuple[str, bytes]:
        found, _, running = await find_run(store, run)
        if running:
            raise NotBundled("it has not ended")
        saved = load_saved(read_file(plan_file)) if plan_file is not None else None
        contents = await movable_of(store).export()
        return found.id, bundle(contents, found.id, head=head, saved=saved, encrypted=is_encrypted(store))

    (id, data), context = chosen.read(work)

    write_new(out, data, help="name another file, or remove it")
    document = {"bundle": {"run": id, "file": str(out), "bytes": len(data), "sha256": digest(data)}}
    verify = advised("verify", str(out))
    emit(Page(document=document, text=f"Wrote {out}. To check it, run `{verify}`.\n", context=context))
    return DONE
