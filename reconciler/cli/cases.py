"""`reconcile history export` and `replay`: a run as a case, and the case played again."""

from collections.abc import Sequence
from pathlib import Path

from anyio import to_thread

from reconciler.cli.chosen_state import ChosenState
from reconciler.cli.command_line import texts_here
from reconciler.cli.output import emit
from reconciler.cli.verb import DONE, FAILED
from reconciler.core.advice import command
from reconciler.core.extras import require_extra
from reconciler.core.plural import counted
from reconciler.evidence.calls import differences
from reconciler.evidence.case import Case, read_case, write_case
from reconciler.evidence.export import manifests_of
from reconciler.project.history import find_run
from reconciler.project.open import limits_of
from reconciler.reports.report import Page
from reconciler.state.spooling import Spooling


def export_run(prefix: str, paths: Sequence[str], out: Path, chosen: ChosenState) -> int:
    """Raises ReconcilerError where the run cannot be played again; then nothing was written."""
    require_extra("sandbox", "an export")
    config, texts = chosen.config, texts_here()

    async def work(store: Spooling) -> Case:
        from reconciler.evidence.export import NotExportable, export  # needs the extra

        run, _, running = await find_run(store, prefix)
        if running:
            raise NotExportable("it has not ended")
        entries = [each for each in await store.journal() if each[1].run == run.id]
        made_from = manifests_of(run, paths, config, texts)

        def made() -> Case:
            return export(
                run,
                entries,
                made_from.effective,
                made_from.resources,
                capabilities=config.settings.capabilities,
                limits=limits_of(config, sandbox=chosen.sandbox),
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
    """Raises ReconcilerError for a folder that holds no case."""
    require_extra("sandbox", "a replay")
    from reconciler.evidence.replay import replay  # needs the extra

    case = read_case(folder)
    played = replay(case)
    found = [*played.get("refused", ()), *differences(case.trace, played)]
    document = {"replay": {"run": case.run, "equal": not found, "differences": found, "trace": played}}
    calls = counted(len(case.trace["calls"]), "call")
    lines = [f"Replayed: {calls}, as recorded."] if not found else ["The replay differs:"]
    emit(Page(document=document, text="\n".join([*lines, *(f"  {each}" for each in found)]) + "\n"))
    return FAILED if found else DONE
