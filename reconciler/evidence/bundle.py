"""Makes a bundle: everything that the state proves about one run, as one file."""

from collections.abc import Mapping

from reconciler.core.advice import Command, command
from reconciler.core.errors import ReconcilerError
from reconciler.evidence.archive import MOST_BYTES, digest, pack
from reconciler.evidence.rows import approvals_of, cut, head_text, heads_at
from reconciler.evidence.verify import PLAN, REHEARSAL
from reconciler.planning.digest import plan_text
from reconciler.planning.saved import SavedPlan
from reconciler.state.codec import decode_entry
from reconciler.state.contents import StateDump, verify
from reconciler.state.store import Event, JournalEntry

_MOST_APPROVALS = 99


class NotBundled(ReconcilerError):
    """The run cannot be bundled; the message names the part that cannot be proved."""

    def __init__(self, why: str, help: str = "", *advice: Command) -> None:
        super().__init__(f"the run cannot be bundled: {why}; nothing was written", help=help, advice=advice)


def bundle(
    contents: StateDump,
    run: str,
    *,
    head: str = "",
    saved: SavedPlan | None = None,
    encrypted: bool = False,
) -> bytes:
    """Return the bundle of a run.

    `head`: of the state, as the apply printed it; "" for the head at the end of the run. `saved`: the plan of
    the run. `encrypted`: the state is, so that what it says of the run must not be written down in clear.

    Raises NotBundled, and StoreError where the journal was altered.
    """
    verify(contents)
    if encrypted:
        show = command("history", "show", run)
        raise NotBundled(
            "its state is encrypted, and a bundle would say in clear what the run did",
            f"who may read the state sees the run with `{show}`",
            show,
        )
    own = [index for index, row in enumerate(contents.rows) if row.columns[0] == run]
    found = cut(contents, run, _count(contents, own, head))
    parts = dict(found.parts)
    started = _started(contents, own[0])
    approvals = list(approvals_of(started))
    if len(approvals) > _MOST_APPROVALS:
        raise NotBundled(f"it used {len(approvals)} approvals")
    for number, approval in enumerate(approvals, start=1):
        for part in ("statement", "signature"):
            parts[f"approvals/{number:02}.{part}"] = str(approval[part]).encode()
    parts |= _planned(started, approvals, saved)
    data = pack(parts)
    if len(data) > MOST_BYTES:
        raise NotBundled(f"it would be larger than {MOST_BYTES >> 20} MiB")
    return data


def _started(contents: StateDump, index: int) -> JournalEntry:
    return decode_entry(contents.rows[index].columns)


def _count(contents: StateDump, own: list[int], head: str) -> int:
    """The number of rows after which the state had this head, from the end of the run on.

    Another run may have been at work in another app.
    """
    ended = [index for index in own if contents.rows[index].columns[1] == Event.RUN_FINISHED]
    first = (ended or own)[-1] + 1
    if not head:
        return first
    for count in range(first, len(contents.rows) + 1):
        if digest(head_text(contents.lineage, heads_at(contents, count))) == head.lower():
            return count
    raise NotBundled(
        f"the state has not had the head {head} since the run ended", help="check the head: apply prints it"
    )


def _planned(
    started: JournalEntry, approvals: list[Mapping[str, str]], saved: SavedPlan | None
) -> dict[str, bytes]:
    if saved is None:
        return {}
    text = plan_text(saved.plan).encode()
    if digest(text) != started.data.get("digest"):
        raise NotBundled("the file given with --plan is not the plan that it carried out")
    parts = {PLAN: text}
    if saved.rehearsal is not None:
        rehearsed = saved.rehearsal.text.encode()
        signed = f'"rehearsal": "{digest(rehearsed)}"'
        if any(signed in approval["statement"] for approval in approvals):
            parts[REHEARSAL] = rehearsed
    return parts
