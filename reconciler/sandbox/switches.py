"""What the platform is not known to do one way or the other: each a named switch with a default.

Source: platform notes, the points marked [?], and the variants that they list.
"""

from collections.abc import Mapping
from typing import Any

from reconciler.sandbox.exchange import Refusal

# name → allowed values, the default first
CHOICES: Mapping[str, tuple[Any, ...]] = {
    "cluster_name_collision": ("allow", "refuse"),  # two clusters of one name in an organization
    "cluster_outcome": ("ready", "failed", "error"),  # how provisioning ends
    "deleted_cluster_get": (200, 404),  # a GET of a deleted cluster
    "extend_needs_restart": ("attached", "always", "never"),  # when an extend owes a restart
    "extend_not_larger": (422, 400, 200),  # an extend to a smaller or equal size
    "restart_repeated": (200, 412),  # a restart of a machine that boots already
    "secret_digest": ("same", "fresh"),  # whether an equal value keeps its digest
    "secret_status": (201, 200),  # the answer to setting a secret
    "secret_value": ("value", "empty", "masked"),  # `value` in that answer
    "snapshot_fields": ("known", "documented"),  # with or without `status` and `volume_size`
    "snapshot_outcome": ("created", "failed"),  # how a snapshot ends
    "snapshot_reply": ("backup", "empty"),  # the answer to an on-demand snapshot
    "start_repeated": (200, 412),  # a start of a machine that runs already
    "start_reply": ("full", "previous_state"),  # the answer to a start, with or without the host
    "started_word": ("started", "running"),  # how the state of a machine that runs is spelt
    "suspend_refusal": ("rule", "plain"),  # whether the refusal's text names the broken rule
    "suspend_repeated": (200, 412),  # a suspend of a machine that is suspended already
    "zones_used_up": (422, 412),  # a create without a unique zone left
}

# name → (default, lowest allowed)
NUMBERS: Mapping[str, tuple[float, float]] = {
    "read_lag_s": (0, 0),  # reads show size and state as before an extend or delete for this long
    "suspending_s": (10, 0),  # how long saving the memory of a machine takes
    "zones_per_region": (5, 1),
}


def defaults() -> dict[str, Any]:
    return {name: values[0] for name, values in (*CHOICES.items(), *NUMBERS.items())}


def check(settings: Mapping[str, Any]) -> None:
    """Raises Refusal 422 for a switch or a value that does not exist."""
    for name, value in settings.items():
        if name in CHOICES:
            if value not in CHOICES[name] or isinstance(value, bool):
                allowed = ", ".join(str(each) for each in CHOICES[name])
                raise Refusal(422, f"switch `{name}` is one of {allowed}")
        elif name in NUMBERS:
            lowest = NUMBERS[name][1]
            if not isinstance(value, int | float) or isinstance(value, bool) or value < lowest:
                raise Refusal(422, f"switch `{name}` is a number from {lowest:g}")
        else:
            raise Refusal(422, f"there is no switch `{name}`")
