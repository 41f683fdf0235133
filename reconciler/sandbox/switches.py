"""Open points of the platform, which may behave one way or the other: named switches with defaults.

The document does not decide them, so a client must be right under every setting. The manual has the same
texts, and a test compares them.

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
        "how `attached_machine_id` and `attached_alloc_id` look on a volume without a machine",
        "treat null, missing and empty as not attached",
        ("null", "missing", "empty"),
    ),
    "auto_extend_gb": Switch(
        "by how many GB somebody else enlarges each volume at the end of every day",
        "do not report growth inside the declared range as drift, and never shrink",
    ),
    "cluster_create": Switch(
        "whether a cluster can be created, or the call is refused as `creation failed`",
        "report a 400 as a refusal, and show its text",
        ("ok", "failed"),
    ),
    "cluster_defaults": Switch(
        "what a cluster gets for fields that the create leaves out: the known defaults, or others",
        "compare only fields that the manifest says",
        ("known", "other"),
    ),
    "cluster_name_collision": Switch(
        "whether an organization may have two clusters with one name",
        "identify clusters by id only, and report a 422 as a refusal",
        ("allow", "refuse"),
    ),
    "cluster_outcome": Switch(
        "how provisioning ends",
        "stop waiting on both `failed` and `error`, and show the word",
        ("ready", "failed", "error"),
    ),
    "daily_snapshots": Switch(
        "whether volumes with `auto_backup_enabled` get a snapshot a day",
        "rely on the listed snapshots, not on the setting",
        ("on", "off"),
    ),
    "deleted_cluster_get": Switch(
        "the answer to a GET of a deleted cluster",
        "treat both status `deleted` and 404 as gone",
        (200, 404),
    ),
    "deleted_volume": Switch(
        "how a deleted volume is listed: as `pending_destroy` for a day, or as `destroyed` forever",
        "treat both states as gone",
        ("pending_destroy", "destroyed"),
    ),
    "detach_lag_s": Switch(
        "how long a volume stays bound to a machine that was destroyed",
        "wait, and retry a refused delete for a limited time",
    ),
    "error_text": Switch(
        "where an error body has its text: in `error`, `message`, `errors.detail`, as plain text, or nowhere",
        "read them in that order, and rely on the status if there is no text",
        ("error", "message", "errors.detail", "text", "empty"),
    ),
    "extend_needs_restart": Switch(
        "when an extend requires a restart",
        "rely only on `needs_restart` in the reply",
        ("attached", "always", "never"),
    ),
    "extend_not_larger": Switch(
        "the answer to an extend to a smaller or equal size",
        "never send one, and rely on the size that is read, not on the status",
        (422, 400, 200),
    ),
    "fork_size": Switch(
        "the size of a fork without `size_gb`: its source's, or the default of 3 GB, which is refused where "
        "the source is larger",
        "always send `size_gb`",
        ("source", "default"),
        documented="default",
    ),
    "new_app_404_s": Switch(
        "how long the lists of a new app answer 404",
        "never treat a missing app as an empty one",
    ),
    "nulls": Switch(
        "whether answers include fields that are null, or omit them",
        "treat null and missing as the same",
        ("shown", "missing"),
    ),
    "pitr_window_days": Switch(
        "how many days back a point in time can be restored",
        "report a 422 as a refusal",
        default=7,
        lowest=1,
    ),
    "placement": Switch(
        "whether there is capacity for new volumes, and how the failure looks",
        "report both failures as a lack of capacity",
        ("ok", "insufficient_capacity", "volume_placement_capacity"),
    ),
    "rate_limit": Switch(
        "one request a second per action and app, machine or cluster, three at once (reads of one machine: "
        "five a second, ten at once)",
        "slow down after a 429; the request was not carried out",
        ("off", "on"),
    ),
    "read_lag_s": Switch(
        "how long reads show the old size and state after an extend or a delete",
        "do not report a lagging read as a failure or as drift",
    ),
    "restart_repeated": Switch(
        "the answer to a restart of a machine that is already starting",
        "do not treat a refusal as success; read the machine",
        (200, 412),
    ),
    "restore_status": Switch(
        "the status of a restore that was accepted", "treat each as success", (201, 200, 202)
    ),
    "restore_target": Switch(
        "whether a restore needs one of `backup_id` and `pitr_time`, or else takes the newest backup",
        "always send exactly one",
        ("required", "optional"),
    ),
    "retry_after": Switch(
        "whether a 429 says when to retry, in seconds or as a date",
        "wait as long as it says, otherwise back off",
        ("seconds", "date", "missing"),
    ),
    "secret_digest": Switch(
        "whether an equal value keeps its digest",
        "never conclude from a new digest that the value has changed",
        ("same", "fresh"),
    ),
    "secret_status": Switch("the status of setting a secret", "treat both as success", (201, 200)),
    "secret_value": Switch(
        "the content of `value` in the answer to setting a secret",
        "discard it before anything can log it",
        ("value", "empty", "masked"),
    ),
    "snapshot_fields": Switch(
        "whether listed snapshots have `status` and `volume_size` (`bare`: they lack `retention_days`, too)",
        "treat a missing status as usable, and year 1 as unfinished",
        ("known", "documented", "bare"),
    ),
    "snapshot_outcome": Switch(
        "how a snapshot ends", "never treat a failed one as usable", ("created", "failed")
    ),
    "snapshot_reply": Switch(
        "the body of the answer to an on-demand snapshot",
        "find the snapshot in the list if the body is empty",
        ("backup", "empty"),
    ),
    "sign_in": Switch(
        "what a person does at sign-in: choose a user on the page, sign in directly if only one user is "
        "possible, or refuse",
        "work with or without the page, and accept `access_denied` as an answer",
        ("page", "direct", "denied"),
    ),
    "start_repeated": Switch(
        "the answer to a start of a machine that is already running",
        "do not treat a refusal as success; read the machine",
        (200, 412),
    ),
    "start_reply": Switch(
        "whether the answer to a start names the host",
        "do not depend on any of its fields",
        ("full", "previous_state"),
    ),
    "started_word": Switch(
        "how the state of a running machine is spelled",
        "treat `running` and `started` as the same state",
        ("started", "running"),
        documented="running",
    ),
    "suspend_refusal": Switch(
        "whether the text of a refused suspend names the broken rule",
        "rely on the status 412, and show the text",
        ("rule", "plain"),
    ),
    "suspend_repeated": Switch(
        "the answer to a suspend of a machine that is already suspended",
        "wait for `suspended` in either case",
        (200, 412),
    ),
    "suspending_s": Switch(
        "how long it takes to save the memory of a machine",
        "wait in slices; after a 408, ask again",
        default=10,
    ),
    "token_scope": Switch(
        "whether the scope of an access token is an array or a text",
        "take both",
        ("list", "string"),
    ),
    "volume_fields": Switch(
        "whether volumes have fields that the API document does not name",
        "keep and ignore them",
        ("documented", "known"),
    ),
    "zones_per_region": Switch(
        "how many hardware zones a region has",
        "report a create as refused if no unique zone is left",
        default=5,
        lowest=1,
        highest=1000,
    ),
    "zones_used_up": Switch(
        "the status of a create when no unique zone is left",
        "treat both as a refusal",
        (422, 412),
    ),
    "zones_used_up_text": Switch(
        "the text of that refusal",
        "rely on status and code, not on the text",
        ("region", "plain", "empty"),
    ),
}


def defaults(*, extended: bool) -> dict[str, Any]:
    """The default of every switch in the extended or the documented profile."""
    return {name: default_of(switch, extended=extended) for name, switch in SWITCHES.items()}


def default_of(switch: Switch, *, extended: bool) -> Any:
    """The default of one switch: its own in the documented profile, else its first value."""
    if switch.documented is not None and not extended:
        return switch.documented
    return switch.allowed[0] if switch.allowed else switch.default


def described(settings: Mapping[str, Any], *, extended: bool) -> dict[str, dict[str, Any]]:
    """Every switch by name: its value, default and range, and what a client is expected to do."""
    return {
        name: {
            "value": settings[name],
            "default": default_of(switch, extended=extended),
            **(
                {"allowed": switch.allowed}
                if switch.allowed
                else {"lowest": switch.lowest, "highest": switch.highest}
            ),
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
                allowed = ", ".join(str(value) for value in switch.allowed)
                raise Refusal(422, f"switch `{name}` must be one of {allowed}")
        elif type(value) not in (int, float) or not switch.lowest <= value <= switch.highest:
            raise Refusal(
                422, f"switch `{name}` must be a number from {switch.lowest:g} to {switch.highest:g}"
            )
