"""What is in no record: an address, or what a call of ours made."""

from collections.abc import Collection

from reconciler.core.advice import command, commands_in
from reconciler.core.diagnostics import UNKNOWN_OUTCOME, Diagnostic, error, warning
from reconciler.core.errors import ReconcilerError
from reconciler.core.model import Address
from reconciler.manifests.validation.references import nearest_address
from reconciler.state.store import LOST_ROWS, JournalEntry


def not_recorded(address: Address, recorded: Collection[Address]) -> ReconcilerError:
    """What to raise; it names the one of `recorded` that is perhaps meant."""
    near, listed = nearest_address(address, recorded), command("state", "list")
    return ReconcilerError(
        f"`{address}` is not recorded",
        help=near or f"`{listed}` shows what is",
        advice=() if near else (listed,),
    )


def no_record_of(entry: JournalEntry, makes: Collection[Address], asks: Collection[Address]) -> Diagnostic:
    """What a call of ours made, or may have made, and no record tracks: a question before it is made again.

    `makes`: the addresses that get a new object. Rows that a restore could not read concern `asks`: those
    whose object no list can show.
    """
    id = entry.data["unclaimed"]
    forget = command("state", "forget", "--unclaimed", id)
    if id == LOST_ROWS:
        made = [f"`{address}`" for address in sorted(asks)]
        report, code = (error, UNKNOWN_OUTCOME) if made else (warning, "state-incomplete")
        return report(
            code,
            f"{', '.join(made) or 'an object that no list shows'} may already have been created: "
            f"{entry.data['because']}",
            help=f"look on the platform, and adopt what exists with `metadata.id`; then run `{forget}`",
            advice=(*commands_in(entry.data["because"]), forget),
            about=sorted(asks),
        )
    again = entry.address in makes
    report, code = (error, UNKNOWN_OUTCOME) if again else (warning, "unclaimed-object")
    return report(
        code,
        f"{id}, created by a call for `{entry.address}`, has no record: {entry.data['because']}",
        help=f"adopt it with `metadata.id: {id}`, or delete it by hand and run `{forget}`",
        advice=(forget,),
        about=filter(None, (entry.address,)),
    )
