"""The outbox: webhooks to the platform, which survive the process.

A line is written in the transaction of the change that it reports. One worker at a time sends (a lease),
and for each resource in order. Within the tolerance a line is sent again as the very same bytes, which the
receiver knows by their hash; later it is signed again with a new timestamp, and known by its content.
"""

import json
from collections.abc import Mapping
from random import Random
from sqlite3 import Row
from typing import Any

import structlog

from reconciler.core.clock import Clock
from reconciler.core.errors import ReconcilerError
from reconciler.providers.kit.settings import ProviderSettings
from reconciler.providers.kit.store import Store
from reconciler.services import signing
from reconciler.services.transport import Transport

FIRST_RETRY_S = 5.0
LONGEST_RETRY_S = 900.0
SAME_BYTES_S = signing.TOLERANCE_S - 60  # how long a body is surely within the receiver's tolerance
KEEP_ENDED_S = 7 * 24 * 3600
IDLE_S = 1.0

_DEADLINE_S = 10.0
_LEASE = "outbox"
_log = structlog.get_logger("reconciler.provider")


class Outbox:
    """The lines to send, and their sending. `transport`: to the webhook's host; None without webhooks.

    A line that the platform refuses is sent again after 5 s, then after twice as long, up to 15 minutes, with
    jitter; after `give_up_s` it is given up, and the page of its resource says so.
    """

    def __init__(
        self,
        settings: ProviderSettings,
        store: Store,
        clock: Clock,
        transport: Transport | None,
        random: Random,
    ) -> None:
        self._settings, self._store, self._clock = settings, store, clock
        self._transport, self._random = transport, random

    def add(self, action: str, resource: Mapping[str, Any], now: float) -> None:
        """Add a line to the outbox, inside the transaction of the change itself."""
        if self._settings.webhook_url is None:
            return
        body = json.dumps(resource, sort_keys=True, separators=(",", ":"))
        self._store.insert(
            "outbox", resource_id=resource["id"], action=action, resource=body, made_at=now, next_at=now
        )

    async def send_until_cancelled(self) -> None:
        """Send what is due, for ever; only the worker that holds the lease does."""
        if self._transport is None:
            return
        held = False
        try:
            while True:
                held = held or self._store.take(_LEASE)
                if held:
                    await self.send_due()
                await self._clock.sleep(IDLE_S)
        finally:
            if held:
                self._store.release(_LEASE)

    async def send_due(self) -> None:
        """Send the first waiting line of each resource, if its time has come, until none is due."""
        while due := self._store.rows(
            "SELECT * FROM outbox WHERE next_at <= ? AND seq IN"
            " (SELECT min(seq) FROM outbox WHERE outcome = 'waiting' GROUP BY resource_id) ORDER BY seq",
            self._now(),
        ):
            for row in due:
                await self._send(row)
        self._store.change(
            "DELETE FROM outbox WHERE outcome = 'sent' AND ended_at < ?", self._now() - KEEP_ENDED_S
        )

    def unsent(self, resource_id: str) -> int:
        """How many lines about the resource the platform has not taken yet, or never will."""
        found = self._store.row(
            "SELECT count(*) AS n FROM outbox WHERE resource_id = ? AND outcome != 'sent'", resource_id
        )
        return 0 if found is None else int(found["n"])

    async def _send(self, row: Row) -> None:
        now = self._now()
        signed_at = row["signed_at"]
        if signed_at is None or not 0 <= now - signed_at <= SAME_BYTES_S:
            signed_at = int(now)
            # Written down before it is sent: a worker that dies now must send the same bytes again.
            self._store.update("outbox", {"seq": row["seq"]}, signed_at=signed_at)
        problem = await self._post(_body(row, signed_at))
        now = self._now()
        changes = {"attempts": row["attempts"] + 1, "problem": problem}
        if problem is None:
            changes |= {"outcome": "sent", "ended_at": now}
        elif now - row["made_at"] >= self._settings.give_up_s:
            changes |= {"outcome": "given up", "ended_at": now}
            _log.error("webhook.given_up", resource=row["resource_id"], action=row["action"], reason=problem)
        else:
            wait_s = min(FIRST_RETRY_S * 2 ** min(row["attempts"], 32), LONGEST_RETRY_S)
            changes["next_at"] = now + wait_s * self._random.uniform(0.5, 1.0)
            _log.warning(
                "webhook.not_taken", resource=row["resource_id"], action=row["action"], reason=problem
            )
        self._store.update("outbox", {"seq": row["seq"]}, **changes)

    async def _post(self, body: bytes) -> str | None:
        """None when the platform took it; otherwise the reason, without secrets."""
        url, secret = self._settings.webhook_url, self._settings.webhook_secret
        assert self._transport is not None
        assert url is not None
        assert secret is not None
        headers = {
            "content-type": "application/json",
            signing.HEADER: signing.signature(secret, body, self._settings.webhook_encoding),
        }
        try:
            answer = await self._transport.request(
                "POST", url, headers=headers, body=body, deadline_s=_DEADLINE_S
            )
        except ReconcilerError as failure:
            return type(failure).__name__
        return None if 200 <= answer.status < 300 else f"status {answer.status}"

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _body(row: Row, signed_at: int) -> bytes:
    """Platform API, 2.9; the timestamp is text, as in the bodies that it shows."""
    event = {"timestamp": str(signed_at), "action": row["action"], "resource": json.loads(row["resource"])}
    return json.dumps(event, separators=(",", ":")).encode()
