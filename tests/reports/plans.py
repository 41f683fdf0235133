"""A plan with every action, every effect and every impact: what reports are tested with."""

from datetime import UTC, datetime

from reconciler.core.advice import Command, command
from reconciler.core.diagnostics import Span, error, warning
from reconciler.core.model import (
    SENSITIVE,
    Action,
    Address,
    Change,
    Effect,
    FieldChange,
    Impact,
    Lifecycle,
    Owed,
)
from reconciler.core.steps import (
    Binding,
    Call,
    Condition,
    OutputRef,
    Owes,
    Plan,
    Read,
    Result,
    SecretRef,
    Step,
    StepEffect,
    Template,
    Wait,
)
from reconciler.core.wire import one
from reconciler.moves.compare import LEFT
from reconciler.services.machines.wire.cluster import Cluster
from reconciler.services.machines.wire.volume import Volume
from tests.contexts import context

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)

ORDERS = Address("PostgresCluster", "orders")
COPY = Address("PostgresCluster", "copy")
KEY = Address("Secret", "API_KEY", "shop")
RESTART = Owes("restart", "needs_restart", "extended from 10 to 20 GB", "volume.attached_machine_id")


def volume(name: str, ordinal: int = 0) -> Address:
    return Address("Volume", name, "shop", ordinal)


def machine(name: str) -> Address:
    return Address("Machine", name, "shop")


CHANGES = (
    Change(ORDERS, Action.CREATE, reason="no recorded cluster"),
    Change(COPY, Action.RESTORE, reason="from orders at 2026-05-31T12:00:00Z"),
    Change(volume("found"), Action.ADOPT, reason="matches the existing vol_2", id="vol_2"),
    Change(
        volume("data", 1),
        Action.EXTEND,
        (
            FieldChange("size_gb", 10, 20, Effect.GROW),
            FieldChange("snapshot_retention", None, 14, Effect.IN_PLACE),
        ),
        Impact.RESTART,
        "the attached machine may have to restart to use the added space",
        "vol_1",
        also=(Action.UPDATE,),
    ),
    Change(
        volume("logs"),
        Action.UPDATE,
        (FieldChange("auto_backup_enabled", True, False, Effect.IN_PLACE),),
        id="vol_3",
    ),
    Change(KEY, Action.SET, (FieldChange("value", SENSITIVE, SENSITIVE, Effect.WRITE_ONLY),)),
    Change(machine("idle"), Action.SUSPEND, impact=Impact.DOWNTIME),
    Change(machine("off"), Action.STOP, impact=Impact.DOWNTIME),
    Change(machine("busy"), Action.START, (FieldChange("power", "suspended", "started", Effect.RESTART),)),
    Change(volume("old-snapshots"), Action.SNAPSHOT, reason="no usable snapshot from the last 24 h"),
    Change(machine("grown"), Action.RESTART, impact=Impact.RESTART),
    Change(
        volume("unwanted"), Action.DELETE, impact=Impact.DATA_LOSS, reason="left the manifests", id="vol_9"
    ),
    Change(volume("gone"), Action.FORGET, reason="the platform shows it as destroyed", id="vol_8"),
    Change(volume("kept"), Action.RETAIN, reason="left the manifests; kept on the platform", id="vol_7"),
    Change(volume("kept-for-long"), Action.RETAIN, reason="left the manifests; kept on the platform"),
    Change(
        volume("to-delete-by-hand"),
        Action.RETAIN,
        reason="the platform API documents no delete: delete it by hand, then run "
        "`reconcile state forget Volume/shop/to-delete-by-hand`",
        id="vol_5",
        advice=(command("state", "forget", volume("to-delete-by-hand")),),
    ),
    Change(
        volume("shrunk"),
        Action.REFUSED,
        (FieldChange("size_gb", 20, 10, Effect.REFUSED),),
        reason="volume `shrunk` cannot shrink from 20 GB to 10 GB",
        id="vol_6",
    ),
    Change(Address("PostgresCluster", "slow"), Action.NOOP, reason="still creating", id="pg_1"),
)

SECRET = SecretRef(
    "template", parts=("postgres://app:", SecretRef("env", "PG"), "@", OutputRef(str(ORDERS), "id"))
)

STEPS = (
    Step(
        f"{ORDERS}#create",
        ORDERS,
        Call("POST", "/v1/postgres", {"org_slug": "acme", "plan": "basic", "name": "orders"}),
        wait=Wait(
            Read(Template(("/v1/postgres/", OutputRef(str(ORDERS), "id"))), one(Cluster)),
            Condition("status", any_of=("ready",), fails=("failed",)),
            1800,
        ),
    ),
    Step(
        f"{COPY}#restore",
        COPY,
        Call(
            "POST",
            Template(("/v1/postgres/", OutputRef(str(ORDERS), "id"), "/restore")),
            {"pitr_time": "2026-05-31T12:00:00Z", "name": "copy"},
        ),
        after=(f"{ORDERS}#create",),
    ),
    Step(
        f"{volume('data', 1)}#extend",
        volume("data", 1),
        Call("PUT", "/v1/apps/shop/volumes/vol_1/extend", {"size_gb": 20}),
        effect=StepEffect(owes=RESTART),
        wait=Wait(Read("/v1/apps/shop/volumes/vol_1", one(Volume)), Condition("size_gb", at_least=20), 600),
    ),
    Step(
        f"{KEY}#set",
        KEY,
        Call("POST", "/v1/apps/shop/secrets/API_KEY", {"value": SECRET}),
        after=(f"{ORDERS}#create",),
    ),
    Step(f"{volume('unwanted')}#delete", volume("unwanted"), Call("DELETE", "/v1/apps/shop/volumes/vol_9")),
)


def _done(name: str) -> tuple[Command, ...]:
    return (command("resolve", volume(name), "--restarted"),)


OWED = (
    Owed(volume("data"), "restart", "extended from 5 to 10 GB", "owed", _done("data")),
    Owed(volume("logs"), "restart", "extended from 1 to 2 GB", "unknown", _done("logs")),
)

DIAGNOSTICS = (
    error(
        "volume-shrink",
        "volume `shrunk` cannot shrink from 20 GB to 10 GB",
        Span("manifests/orders.yaml", 7, 12, 14),
        label="the live size is 20 GB",
        help="set `size_gb: 20`",
    ),
    warning("note", "something without a place"),
)

LEFT_NOW = Binding(volume("kept"), "shop", Lifecycle(), "main.yaml", applied={LEFT: True})
PLAN = Plan("plan-1", context(at=NOW), CHANGES, STEPS, (), (LEFT_NOW,), OWED, DIAGNOSTICS, unchanged=4)
DRIFT = Plan(
    "plan-3",
    context(at=NOW),
    (
        Change(
            volume("data"),
            Action.UPDATE,
            (FieldChange("snapshot_retention", 14, 7, Effect.IN_PLACE),),
            reason="changed on the platform, not by us",
            id="vol_1",
        ),
        Change(
            ORDERS,
            Action.REFUSED,
            (FieldChange("id", "pg_1", None, Effect.REFUSED),),
            reason="not on the platform",
            id="pg_1",
        ),
    ),
    (),
    (),
    (),
    OWED[:1],
    (),
    unchanged=4,
)
EMPTY = Plan("plan-2", context(at=NOW), (), (), (), (), (), (), unchanged=3)

RESULTS = (
    Result(ORDERS, f"{ORDERS}#create", "done", "pg_9"),
    Result(COPY, f"{COPY}#restore", "pending", "pg_10", "still creating"),
    Result(KEY, f"{KEY}#set", "failed", error="the platform answered 422"),
    Result(volume("data", 1), f"{volume('data', 1)}#extend", "unknown", "vol_1", "no answer came"),
    Result(volume("unwanted"), f"{volume('unwanted')}#delete", "skipped", error="interrupted"),
    Result(machine("busy"), f"{machine('busy')}#start", "done", "m_1", note="connections may be stale"),
)
