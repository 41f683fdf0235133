"""What other people, time and failures do to the demo's platform, by the name that `demo play` takes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from reconciler.core.errors import ReconcilerError
from reconciler.core.words import did_you_mean
from reconciler.demo.shop import APP, platform

_VOLUMES = f"v1/apps/{APP}/volumes"
_FAULTS = "_sandbox/faults"


class Trouble(NamedTuple):
    """What happens, in a sentence, and the requests that make it happen: method, path and body.

    In a path, `{volume}` is the id of the volume `data`, `{cluster}` of the cluster `orders`.
    """

    happens: str
    requests: Sequence[tuple[str, str, Mapping[str, Any] | None]]


def _fault(**fault: Any) -> tuple[str, str, Mapping[str, Any]]:
    return ("POST", _FAULTS, fault)


def _later(seconds: int) -> tuple[str, str, Mapping[str, Any]]:
    return ("POST", "_sandbox/clock", {"advance_s": seconds})


TROUBLES = {
    "volume-deleted": Trouble(
        "somebody deletes the volume `data` by hand; a snapshot of it stays",
        [
            ("POST", f"{_VOLUMES}/{{volume}}/snapshots", None),
            _later(600),
            ("DELETE", f"{_VOLUMES}/{{volume}}", None),
        ],
    ),
    "volume-grown": Trouble(
        "somebody grows the volume `data` to 20 GB by hand",
        [("PATCH", "_sandbox/world/volumes/{volume}", {"size_gb": 20})],
    ),
    "volume-full": Trouble(
        "the volume `data` has no space left",
        [("PATCH", "_sandbox/world/volumes/{volume}", {"blocks_free": 0, "blocks_avail": 0})],
    ),
    "volume-made": Trouble(
        "somebody makes another volume called `data`",
        [("POST", _VOLUMES, {"name": "data", "region": "ams", "require_unique_zone": False})],
    ),
    "retention-changed": Trouble(
        "somebody sets the snapshot retention of `data` to 3 days",
        [("PATCH", "_sandbox/world/volumes/{volume}", {"snapshot_retention": 3})],
    ),
    "cluster-fails": Trouble(
        "the platform cannot provision the next cluster",
        [("POST", "_sandbox/switches", {"cluster_outcome": "failed"})],
    ),
    "answer-lost": Trouble(
        "the next volume is created, and the answer is lost",
        [_fault(action="drop_after", method="POST", path=f"/{_VOLUMES}")],
    ),
    "cluster-answer-lost": Trouble(
        "the next cluster is created, and the answer is lost",
        [_fault(action="drop_after", method="POST", path="/v1/postgres")],
    ),
    "slow": Trouble(
        "the next create of a volume is answered after ten minutes",
        [_fault(action="delay", method="POST", path=f"/{_VOLUMES}", delay_s=600, before=True)],
    ),
    "answer-late": Trouble(
        "the next volume is created, and the answer comes after ten seconds",
        [_fault(action="delay", method="POST", path=f"/{_VOLUMES}", delay_s=10)],
    ),
    "outage": Trouble(
        "the platform answers 503 to everything, until `calm`",
        [_fault(action="status", status=503, times=None)],
    ),
    "rate-limit": Trouble(
        "the next create of a volume is refused for a second (429)",
        [_fault(action="rate_limited", method="POST", path=f"/{_VOLUMES}", retry_after=1)],
    ),
    "long-rate-limit": Trouble(
        "each create of a volume is refused for five minutes (429), until `calm`",
        [_fault(action="rate_limited", method="POST", path=f"/{_VOLUMES}", retry_after=300, times=None)],
    ),
    "machine-stuck": Trouble(
        "the machine 5e1ec7edca5e42 is suspended, and does not start until `calm`",
        [
            ("POST", "_sandbox/machines", {"app": APP, "id": "5e1ec7edca5e42", "state": "suspended"}),
            _fault(
                action="status",
                status=408,
                method="GET",
                path=f"/v1/apps/{APP}/machines/*/wait",
                times=None,
                body={"error": "deadline_exceeded", "status": "deadline_exceeded"},
            ),
        ],
    ),
    "hours": Trouble("two hours pass", [_later(7200)]),
    "calm": Trouble(
        "outages and refusals end, and clusters are provisioned again",
        [("DELETE", _FAULTS, None), ("POST", "_sandbox/switches", {"cluster_outcome": "ready"})],
    ),
}


async def play(folder: Path, name: str) -> str:
    """Let it happen to the demo of `folder`; returns what happened, as a sentence.

    Raises ReconcilerError for an unknown name, and where no demo runs.
    """
    trouble = TROUBLES.get(name)
    if trouble is None:
        hint = did_you_mean(name, list(TROUBLES))
        raise ReconcilerError(
            f"no trouble is called `{name}`", help=hint or "`reconcile demo play` lists them"
        )
    async with platform(folder) as ask:
        world = await ask("GET", "_sandbox/world", None)
        ids = {"volume": _id(world["volumes"], "data"), "cluster": _id(world["clusters"], "orders")}
        for method, path, body in trouble.requests:
            if "//" in (path := path.format_map(ids)):
                raise ReconcilerError(
                    "the demo's platform has no such object any more",
                    help="start a new demo in an empty folder",
                )
            await ask(method, path, body)
    return trouble.happens


def _id(objects: Sequence[Mapping[str, Any]], name: str) -> str:
    """The id of the newest object of that name; "" where there is none any more."""
    gone = ("pending_destroy", "destroyed")
    there = [thing for thing in objects if thing["name"] == name and thing.get("state") not in gone]
    return there[-1]["id"] if there else ""
