"""`reconcile bundle`, `verify`, `history export` and `history replay`: the evidence of one run, as files."""

import os
from collections.abc import Sequence
from pathlib import Path

from anyio import to_thread

from reconciler.cli import options
from reconciler.cli.chosen_state import ChosenState
from reconciler.cli.command_line import texts_here
from reconciler.cli.output import emit
from reconciler.cli.verb import DONE, FAILED, argument, option, verb
from reconciler.core.advice import command
from reconciler.core.errors import ReconcilerError
from reconciler.core.extras import require_extra
from reconciler.core.words import counted
from reconciler.evidence.archive import MOST_BYTES, Damaged, digest
from reconciler.evidence.bundle import NotBundled
from reconciler.evidence.bundle import bundle as bundle_of
from reconciler.evidence.case import Case, differences, read_case, write_case
from reconciler.evidence.verify import damaged_page, verified_page
from reconciler.evidence.verify import verify as verify_bundle
from reconciler.planning.saved import load_saved
from reconciler.project.files import read_file, write_new
from reconciler.project.history import find_run
from reconciler.project.open import limits_of
from reconciler.reports.report import Page
from reconciler.state import backend_of, is_encrypted
from reconciler.state.spooling import Spooling


@verb("bundle")
def bundle(
    chosen: ChosenState,
    run: str = argument(metavar="RUN"),
    out: Path = option("--out", "Where to.", type=options.FILE, required=True, metavar="FILE"),
    plan_file: Path | None = option(
        "--plan",
        "The plan that it carried out, saved by `plan --out`, to be part of the bundle.",
        type=options.FILE,
        metavar="FILE",
    ),
    head: str = option("--head", "The state's head that its apply printed.", default="", metavar="HEAD"),
) -> None:
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
        contents, encrypted = await backend_of(store).export(), is_encrypted(store)
        return found.id, bundle_of(contents, found.id, head=head, saved=saved, encrypted=encrypted)

    (id, data), context = chosen.read(work)

    write_new(out, data)
    document = {"bundle": {"run": id, "file": str(out), "bytes": len(data), "sha256": digest(data)}}
    check = command("verify", str(out))
    emit(Page(document=document, text=f"Wrote {out}. To check it, run `{check}`.\n", context=context))


@verb("verify")
def verify(
    file: Path = argument(type=options.FILE, metavar="FILE"),
    head: str = option("--head", "The state's head that its apply printed.", default="", metavar="HEAD"),
    allowed_signers: Path | None = option(
        "--allowed-signers",
        "Who may sign, in the format of ssh's allowed_signers.",
        type=options.FILE,
        metavar="FILE",
    ),
) -> int:
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
        found = verify_bundle(read_file(file), head=head, signers=signers, env=os.environ)
    except Damaged as damaged:
        emit(damaged_page(str(file), damaged))
        return FAILED
    emit(verified_page(str(file), found, has_head=bool(head)))
    return DONE


def export_run(prefix: str, paths: Sequence[str], out: Path, chosen: ChosenState) -> int:
    """Write the run whose id begins with `prefix` to the folder `out`; returns the exit code.

    Raises ReconcilerError where the run cannot be played again; then nothing is written.
    """
    require_extra("sandbox", "an export")
    from reconciler.evidence.export import NotExportable, export, manifests_of  # these two need the extra

    config, texts = chosen.config, texts_here()

    async def work(store: Spooling) -> Case:
        run, _, running = await find_run(store, prefix)
        if running:
            raise NotExportable("it has not ended")
        entries = [row for row in await store.journal() if row[1].run == run.id]
        manifests = manifests_of(run, paths, config, texts)

        def made() -> Case:
            return export(
                run,
                entries,
                manifests.effective,
                manifests.resources,
                capabilities=config.settings.capabilities,
                limits=limits_of(config),
                rate_limit=config.settings.platform.rate_limit,
            )

        return await to_thread.run_sync(made)

    case, context = chosen.read(work)
    write_case(case, out)
    replayed = command("history", "replay", str(out))
    calls = counted(len(case.trace["calls"]), "call")
    document = {"export": {"run": case.run, "folder": str(out), "trace": case.trace}}
    text = f"Exported to {out}: {calls}, replayed with an equal trace.\nTo replay it, run `{replayed}`.\n"
    emit(Page(document=document, text=text, context=context))
    return DONE


def replay_case(folder: Path) -> int:
    """Play the case in `folder` on an emulated platform; FAILED where anything differs from its run.

    Raises ReconcilerError for a folder that holds no case.
    """
    require_extra("sandbox", "a replay")
    from reconciler.evidence.replay import replay  # needs the extra

    case = read_case(folder)
    played = replay(case)
    found = [*played.get("refused", ()), *differences(case.trace, played)]
    document = {"replay": {"run": case.run, "equal": not found, "differences": found, "trace": played}}
    calls = counted(len(case.trace["calls"]), "call")
    lines = [f"Replayed: {calls}, as recorded."] if not found else ["The replay differs:"]
    emit(Page(document=document, text="\n".join([*lines, *(f"  {text}" for text in found)]) + "\n"))
    return FAILED if found else DONE
