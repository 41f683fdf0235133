"""What the platform is not known to do one way or the other: each a named switch with a default.

Source: platform notes, the points marked [?], and the variants that they list.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from reconciler.sandbox.exchange import Refusal

_MOST = 1e9


class Switch(NamedTuple):
    """`allowed`: all values, the default first; empty for a number from `lowest` to `highest`.

    `documented`: the default of the documented profile, where it differs.
    """

    about: str
    client: str  # what a client is expected to do, whatever the setting
    allowed: tuple[Any, ...] = ()
    default: float = 0
    lowest: float = 0
    highest: float = _MOST
    documented: Any = None


SWITCHES: Mapping[str, Switch] = {
    "attached_none": Switch(
        "how `attached_machine_id` and `attached_alloc_id` of a volume without a machine look",
        "take null, missing and empty alike for not attached",
        ("null", "missing", "empty"),
    ),
    "auto_extend_gb": Switch(
        "by how many GB others enlarge each volume at the end of every day of its life",
        "take growth inside the declared range for no drift, and never shrink",
    ),
    "cluster_name_collision": Switch(
        "whether an organization may have two clusters of one name",
        "tell clusters apart by id alone, and report a 422 as a refusal",
        ("allow", "refuse"),
    ),
    "cluster_outcome": Switch(
        "how provisioning ends",
        "stop waiting on `failed` and `error` alike, and show the word",
        ("ready", "failed", "error"),
    ),
    "daily_snapshots": Switch(
        "whether volumes with `auto_backup_enabled` get a snapshot a day",
        "judge by the snapshots listed, not by the setting",
        ("on", "off"),
    ),
    "deleted_cluster_get": Switch(
        "the answer to a GET of a deleted cluster",
        "take status `deleted` and 404 alike for gone",
        (200, 404),
    ),
    "deleted_volume": Switch(
        "what becomes of a deleted volume: listed as `pending_destroy` for a day, or as `destroyed` for good",
        "take both states for gone",
        ("pending_destroy", "destroyed"),
    ),
    "detach_lag_s": Switch(
        "how long a volume stays bound to a machine that was destroyed",
        "wait and try a refused delete again, within a bound",
    ),
    "error_text": Switch(
        "where an error body holds its text: `error`, `message`, `errors.detail`, plain text or nowhere",
        "read them in that order, and go by the status when there is no text",
        ("error", "message", "errors.detail", "text", "empty"),
    ),
    "extend_needs_restart": Switch(
        "when an extend owes a restart",
        "go by `needs_restart` in the reply alone",
        ("attached", "always", "never"),
    ),
    "extend_not_larger": Switch(
        "the answer to an extend to a smaller or equal size",
        "never send one, and trust the size that is read, not the status",
        (422, 400, 200),
    ),
    "new_app_404_s": Switch(
        "for how long the lists of a new app answer 404",
        "never take a missing app for an empty one",
    ),
    "nulls": Switch(
        "whether answers hold fields that are null, or leave them out",
        "take null and missing for the same",
        ("shown", "missing"),
    ),
    "pitr_window_days": Switch(
        "how far back a point in time can be restored",
        "report a 422 as a refusal",
        default=7,
        lowest=1,
    ),
    "placement": Switch(
        "whether new volumes find room, and which failure they meet",
        "report both as a refusal for lack of capacity",
        ("ok", "insufficient_capacity", "volume_placement_capacity"),
    ),
    "rate_limit": Switch(
        "one request a second per action and app, machine or cluster, three at once (reads of one machine: "
        "five a second, ten at once)",
        "slow down after a 429: nothing was done",
        ("off", "on"),
    ),
    "read_lag_s": Switch(
        "for how long reads show size and state as before an extend or a delete",
        "not take a lagging read for a failure, nor for drift",
    ),
    "restart_repeated": Switch(
        "the answer to a restart of a machine that boots already",
        "take a refusal for what it says, and read the machine",
        (200, 412),
    ),
    "retry_after": Switch(
        "whether a 429 says when to come back, in seconds or as a date",
        "wait as long as it says, else back off",
        ("seconds", "date", "missing"),
    ),
    "secret_digest": Switch(
        "whether an equal value keeps its digest",
        "never conclude from a new digest that the value changed",
        ("same", "fresh"),
    ),
    "secret_status": Switch("the status of setting a secret", "take both for done", (201, 200)),
    "secret_value": Switch(
        "what `value` holds in the answer to setting a secret",
        "drop it before anything can log it",
        ("value", "empty", "masked"),
    ),
    "snapshot_fields": Switch(
        "whether listed snapshots carry `status` and `volume_size`, or lack `retention_days` too",
        "take a missing status for usable, and year 1 for unfinished",
        ("known", "documented", "bare"),
    ),
    "snapshot_outcome": Switch(
        "how a snapshot ends", "never count a failed one as usable", ("created", "failed")
    ),
    "snapshot_reply": Switch(
        "the body of the answer to an on-demand snapshot",
        "find the snapshot by listing when the body is empty",
        ("backup", "empty"),
    ),
    "sign_in": Switch(
        "what a person does who is sent to sign in: pick a user on the page, be signed in at once where only "
        "one user can be meant, or say no",
        "come through with a page in between or without, and take `access_denied` for an answer",
        ("page", "direct", "denied"),
    ),
    "start_repeated": Switch(
        "the answer to a start of a machine that runs already",
        "take a refusal for what it says, and read the machine",
        (200, 412),
    ),
    "start_reply": Switch(
        "whether the answer to a start names the host",
        "need none of its fields",
        ("full", "previous_state"),
    ),
    "started_word": Switch(
        "how the state of a machine that runs is spelt",
        "take `running` and `started` for one state",
        ("started", "running"),
        documented="running",
    ),
    "suspend_refusal": Switch(
        "whether the text of a refused suspend names the broken rule",
        "go by the status 412, and show the text",
        ("rule", "plain"),
    ),
    "suspend_repeated": Switch(
        "the answer to a suspend of a machine that is suspended already",
        "wait for `suspended` in either case",
        (200, 412),
    ),
    "suspending_s": Switch(
        "how long saving the memory of a machine takes",
        "wait in slices: a 408 means to ask again",
        default=10,
    ),
    "token_scope": Switch(
        "whether the scope of an access token is an array or a text",
        "take both",
        ("list", "string"),
    ),
    "volume_fields": Switch(
        "whether volumes are read with fields that the API document does not name",
        "keep and ignore them",
        ("documented", "known"),
    ),
    "zones_per_region": Switch(
        "how many hardware zones a region has",
        "report a create without a unique zone as a refusal",
        default=5,
        lowest=1,
        highest=1000,
    ),
    "zones_used_up": Switch(
        "the status of a create without a unique zone left",
        "take both for a refusal",
        (422, 412),
    ),
    "zones_used_up_text": Switch(
        "the text of that refusal",
        "go by status and code, not by the text",
        ("region", "plain", "empty"),
    ),
}


def defaults(*, extended: bool) -> dict[str, Any]:
    return {name: default_of(switch, extended=extended) for name, switch in SWITCHES.items()}


def default_of(switch: Switch, *, extended: bool) -> Any:
    if switch.documented is not None and not extended:
        return switch.documented
    return switch.allowed[0] if switch.allowed else switch.default


def described(settings: Mapping[str, Any], *, extended: bool) -> dict[str, dict[str, Any]]:
    """Each switch by name: its value, its default, what is allowed, and what a client is expected to do."""
    return {
        name: {
            "value": settings[name],
            "default": default_of(switch, extended=extended),
            **({"allowed": switch.allowed} if switch.allowed else _range(switch)),
            "about": switch.about,
            "client": switch.client,
        }
        for name, switch in SWITCHES.items()
    }


def check(settings: Mapping[str, Any]) -> None:
    """Raises Refusal 422 for a switch or a value that does not exist."""
    for name, value in settings.items():
        switch = SWITCHES.get(name)
        if switch is None:
            raise Refusal(422, f"there is no switch `{name}`")
        if switch.allowed:
            if value not in switch.allowed or isinstance(value, bool):
                allowed = ", ".join(str(each) for each in switch.allowed)
                raise Refusal(422, f"switch `{name}` is one of {allowed}")
        elif (
            not isinstance(value, int | float)
            or isinstance(value, bool)
            or not switch.lowest <= value <= switch.highest
        ):
            raise Refusal(422, f"switch `{name}` is a number from {switch.lowest:g} to {switch.highest:g}")


def _range(switch: Switch) -> dict[str, float]:
    return {"lowest": switch.lowest, "highest": switch.highest}
