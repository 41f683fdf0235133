"""The life of a resource: ordered, made, changed, removed; each once, however often it is asked for.

Only one worker at a time works on a resource: it holds the lease of that name. The start of a work (`making`,
`removing`) is written down first, so that another worker or the next start continues it. Answers of functions
are not stored; a function is called again instead: see `functions`.

Phases: `making` until the first success, then `made`; `failed` when the first attempt failed, and the order
may change; `removing` until nothing is left. A call is answered 202 when it takes longer than `answer_s`; its
work continues, and later calls find the result.
"""

import hmac
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from sqlite3 import IntegrityError, Row
from typing import Any

import anyio
import structlog
from anyio.abc import TaskGroup

from reconciler.core.clock import Clock
from reconciler.providers.kit.functions import (
    Cost,
    Declined,
    Functions,
    Order,
    Provisioned,
    Report,
    Resource,
    Visitor,
)
from reconciler.providers.kit.intake import Refusal
from reconciler.providers.kit.settings import ProviderSettings
from reconciler.providers.kit.store import Store
from reconciler.providers.kit.webhooks import Outbox

PROVISIONING, ERROR, DELETING, DELETED = "provisioning", "error", "deleting", "deleted"
_MAKING, _MADE, _FAILED, _REMOVING = "making", "made", "failed", "removing"

_LOOK_AGAIN_S = 0.05  # for a lease that another worker holds
_RESUME_EVERY_S = 2.0
_NOT_FOUND = "there is no such resource"
_BUSY = "another request is changing this resource; try again"

Answer = tuple[int, dict[str, Any]]
_Work = Callable[[str], Awaitable[Answer]]
_log = structlog.get_logger("reconciler.provider")


class Resources:
    """The resources of one worker. `answer_s` of the settings bounds how long a call is waited for."""

    def __init__(
        self, settings: ProviderSettings, functions: Functions, store: Store, outbox: Outbox, clock: Clock
    ) -> None:
        self._settings, self._functions = settings, functions
        self._store, self._outbox, self._clock = store, outbox, clock
        self._tasks: TaskGroup | None = None

    def begin_in(self, tasks: TaskGroup) -> None:
        """Let calls start from now on; their work is done in `tasks`."""
        self._tasks = tasks
        tasks.start_soon(self._resume_until_cancelled, tasks)

    async def _resume_until_cancelled(self, tasks: TaskGroup) -> None:
        """Continue the work of workers that are gone: at the start, and every few seconds."""
        while True:
            for row in self._store.rows(
                "SELECT id, phase FROM resources WHERE phase IN (?, ?)", _MAKING, _REMOVING
            ):
                if self._store.take(_lease(row["id"])):
                    work = self._make if row["phase"] == _MAKING else self._remove
                    tasks.start_soon(self._resume, row["id"], work)
            await self._clock.sleep(_RESUME_EVERY_S)

    async def provision(self, order: Order) -> Answer:
        """201 with the configuration, or 202 when it takes longer. Raises Refusal (409) for another order."""
        self._refuse_another(order)
        later: Answer = (202, {"id": order.id, "config": {}, "status": PROVISIONING})

        async def begin(key: str) -> Answer:
            self._begin(order)
            return await self._make(key)

        answer = await self._answered(order.id, begin, later, busy=later)
        self._refuse_another(order)  # another order may have come first meanwhile
        return answer

    async def update(self, id: str, changes: Mapping[str, Any], read: Callable[[Any], Order]) -> Answer:
        """`changes`: fields of the order, all or some. `read` raises Refusal (422) for a wrong one."""
        key = self._known(id)["id"]

        async def change(key: str) -> Answer:
            row = self._known(key)
            if row["phase"] != _MADE:
                raise Refusal(409, f"the resource is {row['status']}; try again later")
            if changes.get("id", key) not in (key, row["resource_id"]):
                raise Refusal(422, "`id` is not the id of this resource")
            order = read({**json.loads(row["wanted"]), **changes, "id": key})
            name = row["name"] if row["own_name"] else order.name
            resource = replace(self._resource(row), order=order, name=name)
            await self._functions.update(resource)
            report = await self._functions.get(resource, None)
            with self._store.transaction():
                self._store.update(
                    "resources",
                    {"id": key},
                    wanted=_written(order),
                    name=name,
                    status=report.status,
                    plan=report.plan,
                )
                shown = _shown(self._known(key), report)
                self._outbox.add("resource.updated", shown, self._now())
            return 200, shown

        return await self._answered(key, change, None)

    async def get(self, id: str, visitor: Visitor | None = None) -> Answer:
        """200 with the resource as it is now; an unfinished one as it was last recorded."""
        row = self._known(id)
        if row["phase"] != _MADE:
            problem = {"error": row["problem"]} if row["problem"] else {}
            return 200, {**_shown(row, Report(row["status"], row["plan"])), **problem}
        report = await self._functions.get(self._resource(row), visitor)
        if (report.status, report.plan) != (row["status"], row["plan"]):
            self._note(row, report)
        return 200, _shown(row, report)

    async def remove(self, id: str) -> Answer:
        """200 when it is gone, 202 when that takes longer; afterwards 404."""
        key = self._known(id)["id"]

        async def begin(key: str) -> Answer:
            row = self._known(key)
            removing = {"phase": _REMOVING, "status": DELETING, "problem": None}
            self._store.update("resources", {"id": row["id"]}, **removing)
            return await self._remove(key)

        later = (202, {"id": self._known(key)["resource_id"], "status": DELETING})
        return await self._answered(key, begin, later)

    async def costs(self) -> Answer:
        """200 with what each finished resource costs."""
        rows = self._store.rows("SELECT * FROM resources WHERE phase = ? ORDER BY id", _MADE)
        costs: Sequence[Cost] = await self._functions.costs([self._resource(row) for row in rows])
        shown = ("amount", "currency", "per")
        return 200, {
            "costs": [
                {"id": cost.resource_id, **{name: getattr(cost, name) for name in shown}, **cost.details}
                for cost in costs
            ]
        }

    def organization_of(self, id: str) -> str | None:
        """The organization of the resource; None when there is no such resource."""
        try:
            row = self._known(id)
        except Refusal:
            return None
        return Order.model_validate_json(row["wanted"]).organization_id

    async def watch(self) -> None:
        """Ask for the state of every resource, and report changes that no call made."""
        for row in self._store.rows("SELECT id FROM resources WHERE phase = ?", _MADE):
            try:
                await self.get(row["id"])
            except Refusal:
                continue  # taken away meanwhile
            except Exception as failure:
                _log.info("resource.unreadable", resource=row["id"], reason=type(failure).__name__)

    def _refuse_another(self, order: Order) -> Row | None:
        """The resource of that id, unless it is another order's: Refusal (409)."""
        row = self._store.row("SELECT * FROM resources WHERE id = ?", order.id)
        if row is None:
            return None
        if row["phase"] == _REMOVING:
            raise Refusal(409, "the resource is being deleted")
        written = _written(order)
        # A failed resource was never handed out, so its order may change.
        # The present order, changed by a PATCH, is the same resource, too.
        if row["phase"] != _FAILED and not (
            row["fingerprint"] == _fingerprint(written) or row["wanted"] == written
        ):
            raise Refusal(409, _difference(json.loads(row["first"]), json.loads(written)))
        return row

    def _begin(self, order: Order) -> None:
        """Write the order down, under the lease. An order that failed before starts again."""
        written = _written(order)
        with self._store.transaction():
            row = self._refuse_another(order)
            if row is None or row["phase"] == _FAILED:
                self._store.change("DELETE FROM resources WHERE id = ?", order.id)
                try:
                    self._store.insert(
                        "resources",
                        id=order.id,
                        resource_id=order.id,
                        fingerprint=_fingerprint(written),
                        first=written,
                        wanted=written,
                        phase=_MAKING,
                        status=PROVISIONING,
                        name=order.name,
                        made_at=self._now(),
                    )
                except IntegrityError:
                    raise Refusal(409, "`id` already belongs to another resource") from None
            self._store.insert(
                "people",
                replacing=True,
                **order.model_dump(include={"organization_id", "user_id"}),
                email=order.user_email,
                role=order.user_role,
                seen_at=self._now(),
            )

    async def _make(self, key: str) -> Answer:
        """Call `provision`, for the first time or again, and record the first success."""
        row = self._known(key)
        if row["phase"] == _REMOVING:
            raise Refusal(409, "the resource is being deleted")
        try:
            made = await self._functions.provision(self._resource(row))
            if not all(isinstance(text, str) for item in made.config.items() for text in item):
                raise TypeError("`config` must map text to text")
        except Exception as failure:
            if row["phase"] == _MAKING:
                reason = str(failure) if isinstance(failure, Declined) else "provisioning failed"
                self._store.update("resources", {"id": key}, phase=_FAILED, status=ERROR, problem=reason)
            raise
        digest = hmac.digest(self._store.key, _canonical(dict(made.config)).encode(), "sha256").hex()
        if row["phase"] == _MAKING:
            self._record(row, made, digest)
        elif row["config_digest"] != digest:
            raise RuntimeError("provision returned a different configuration than the first time")
        row = self._known(key)
        answer = {
            "id": row["resource_id"],
            "config": dict(made.config),
            **{name: row[name] for name in ("status", "name", "platform_app_name")},
        }
        return 201, {name: value for name, value in answer.items() if value is not None}

    def _record(self, row: Row, made: Provisioned, digest: str) -> None:
        with self._store.transaction():
            self._store.update(
                "resources",
                {"id": row["id"]},
                resource_id=made.id or row["id"],
                phase=_MADE,
                status=made.status,
                plan=made.plan,
                name=made.name or row["name"],
                own_name=bool(made.name),
                platform_app_name=made.platform_app_name,
                config_digest=digest,
                problem=None,
            )
            shown = _shown(self._known(row["id"]), Report(made.status, made.plan))
            self._outbox.add("resource.created", shown, self._now())
        _log.info("resource.made", resource=row["id"])

    async def _remove(self, key: str) -> Answer:
        row = self._known(key)
        await self._functions.deprovision(self._resource(row))
        with self._store.transaction():
            self._store.change("DELETE FROM resources WHERE id = ?", key)
            self._outbox.add("resource.deleted", _shown(row, Report(DELETED, row["plan"])), self._now())
        _log.info("resource.removed", resource=key)
        return 200, {"id": row["resource_id"], "status": DELETED}

    def _note(self, row: Row, report: Report) -> None:
        """Record and report a change that no call made; only the first worker that sees it does."""
        with self._store.transaction():
            before = {"id": row["id"], "phase": _MADE, "status": row["status"], "plan": row["plan"]}
            if self._store.update("resources", before, status=report.status, plan=report.plan):
                self._outbox.add("resource.updated", _shown(row, report), self._now())

    async def _holding(self, key: str, work: _Work, busy: Answer | None) -> Answer:
        """The answer of `work`, done under the lease of the resource.

        While another worker holds the lease for too long: `busy`, or Refusal (409).
        """
        until = self._clock.monotonic() + self._settings.answer_s
        while not self._store.take(_lease(key)):
            if self._clock.monotonic() >= until:
                if busy is None:
                    raise Refusal(409, _BUSY)
                return busy
            await self._clock.sleep(_LOOK_AGAIN_S)
        try:
            return await work(key)
        finally:
            self._store.release(_lease(key))

    async def _resume(self, key: str, work: _Work) -> None:
        try:
            await work(key)
        except Exception as failure:
            _log.info("resource.failed", resource=key, reason=type(failure).__name__)
        finally:
            self._store.release(_lease(key))

    async def _answered(
        self, key: str, work: _Work, later: Answer | None, busy: Answer | None = None
    ) -> Answer:
        """The answer of `_holding`, or `later` when that takes too long; the work still continues.

        It runs in the kit's own task group: neither a client that leaves nor the end of a request stops it.
        """
        if self._tasks is None:
            raise RuntimeError("the kit is not running: use its lifespan, see docs/providers.md")
        ended = anyio.Event()
        outcome: list[Answer | Exception] = []

        async def run() -> None:
            try:
                outcome.append(await self._holding(key, work, busy))
            except Exception as failure:
                outcome.append(failure)
                if not isinstance(failure, Refusal | Declined):
                    _log.error("function.failed", reason=type(failure).__name__)
            finally:
                ended.set()

        self._tasks.start_soon(run)
        with anyio.move_on_after(None if later is None else self._settings.answer_s):
            await ended.wait()
        answer = outcome[0] if outcome else later
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            raise RuntimeError("the work was interrupted")
        return answer

    def _known(self, id: str) -> Row:
        """By the provider's id, or else by the platform's. Raises Refusal (404)."""
        row = self._store.row("SELECT * FROM resources WHERE resource_id = ?", id)
        row = row or self._store.row("SELECT * FROM resources WHERE id = ?", id)
        if row is None:
            raise Refusal(404, _NOT_FOUND)
        return row

    def _resource(self, row: Row) -> Resource:
        order = Order.model_validate_json(row["wanted"])
        return Resource(row["resource_id"], order, row["name"], row["status"], row["plan"], self._store.key)

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _lease(key: str) -> str:
    return f"resource:{key}"


def _canonical(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _written(order: Order) -> str:
    """The order as JSON, the same for the same order: a field that is null counts as left out."""
    return _canonical(order.model_dump(exclude_none=True))


def _fingerprint(written: str) -> str:
    return sha256(written.encode()).hexdigest()


def _difference(first: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    names = sorted(name for name in {*first, *now} if first.get(name) != now.get(name))
    listed = ", ".join(f"`{name}`" for name in names)
    return f"this id was already ordered with a different {listed}; to change a resource, use PATCH"


def _shown(row: Row, report: Report) -> dict[str, Any]:
    """The resource as the platform's GET and the webhooks show it."""
    order = Order.model_validate_json(row["wanted"])
    ordered = ("organization_id", "user_id", "primary_region", "read_regions", "ip_address")
    fields = {
        "id": row["resource_id"],
        "name": row["name"],
        "status": report.status,
        "plan": report.plan,
        **{name: getattr(order, name) for name in ordered},
        "platform_app_name": row["platform_app_name"],
    }
    known = {name: value for name, value in fields.items() if value is not None}
    return {**report.details, **known}
