"""A world: how many apps with how many volumes, and how much of them exists and is recorded."""

import json
from dataclasses import asdict, dataclass
from typing import Any

APPS_PER_CLUSTER = 100
CREATED_AT = "2026-01-31T12:00:00Z"

_REGIONS = ("ams", "fra", "lhr", "iad", "sjc")


@dataclass(frozen=True)
class World:
    """Volumes and clusters, all of them declared in manifests.

    `volumes`: of each app. Of these, the state knows the first `recorded` ones, and the platform has the
    first `live` ones (None: all). `files`: one for each "app" and each thousand of its volumes, one for each
    "volume", or "one" for all. `policies`: how many give the volumes their retention; 0: each volume's
    manifest does. `max_age_h`: the objective of an age of snapshots, for all volumes; 0: none. `limited`: the
    documented rate limits hold.
    """

    apps: int
    volumes: int = 10
    clusters: int = 0
    recorded: int | None = None
    live: int | None = None
    files: str = "app"
    policies: int = 0
    max_age_h: int = 0
    limited: bool = False

    @property
    def size(self) -> int:
        """All volumes that are declared."""
        return self.apps * self.volumes

    @property
    def recorded_in_app(self) -> int:
        return self.volumes if self.recorded is None else self.recorded

    @property
    def live_in_app(self) -> int:
        return self.volumes if self.live is None else self.live

    @property
    def calls(self) -> int:
        """What a plan asks for: a list an app, each cluster, and the snapshots that an objective is about."""
        return self.apps + self.clusters + (self.apps * self.live_in_app if self.max_age_h else 0)

    @property
    def verdict(self) -> str:
        """What a plan says."""
        adopted = self.apps * (self.live_in_app - self.recorded_in_app)
        created = self.apps * (self.volumes - self.live_in_app)
        if not adopted and not created:
            return f"No changes: {self.size + self.clusters} resource"
        parts = [f"{adopted} to adopt"] if adopted else []
        parts += [f"{created} to create"] if created else []
        return f"Plan: {', '.join(parts)}"

    def __str__(self) -> str:
        words = [f"{self.size:,}" if self.size > 1 else "one volume"]
        if self.recorded_in_app == 0:
            words += ["to adopt" if self.live_in_app else "new"]
        elif self.recorded_in_app < self.volumes:
            words = [f"{self.apps * (self.volumes - self.recorded_in_app):,} new beside"]
            words += [f"{self.apps * self.recorded_in_app:,}"]
        words += ["in one app"] if self.apps == 1 < self.volumes else []
        words += {"volume": ["in a file each"], "one": ["in one file"]}.get(self.files, [])
        words += [f"with {self.policies:,} policies"] if self.policies else []
        words += ["with objectives"] if self.max_age_h else []
        words += ["under limits"] if self.limited else []
        return " ".join(words)

    def dumps(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def loads(text: str) -> "World":
        return World(**json.loads(text))


def usual(size: int) -> World:
    """`size` volumes, ten an app, and a cluster for every hundred apps: all recorded and unchanged."""
    apps = size // 10
    return World(apps, clusters=-(-apps // APPS_PER_CLUSTER))


def new(size: int) -> World:
    """`size` volumes, ten an app, which nobody has made yet."""
    return World(size // 10, recorded=0, live=0)


def app_name(app: int) -> str:
    return f"app-{app:05}"


def volume_name(number: int) -> str:
    return f"data-{number}"


def volume_id(app: int, number: int) -> str:
    return f"vol_{_serial(app, number):016x}"


def machine_id(app: int, number: int) -> str:
    return f"{_serial(app, number):014x}"


def _serial(app: int, number: int) -> int:
    return app * 1_000_000 + number


def volume_fields(app: int, number: int) -> dict[str, Any]:
    """What is managed of a volume, whether its manifest or a policy says so."""
    return {
        "region": _REGIONS[app % len(_REGIONS)],
        "size_gb": 10 + 5 * (number % 4),
        "snapshot_retention": 7 + number % 10,
        "auto_backup_enabled": number % 2 == 0,
        "encrypted": True,
    }


def tier(world: World, app: int, number: int) -> int:
    """Which of the world's policies a volume follows. All that follow one have the same retention."""
    tens = world.policies // 10
    return (app * world.volumes + number) // 10 % tens * 10 + number % 10


def cluster_name(cluster: int) -> str:
    return f"orders-{cluster:03}"


def cluster_id(cluster: int) -> str:
    return f"pg{cluster:014}"


def cluster_fields(cluster: int) -> dict[str, Any]:
    return {
        "plan": "starter",
        "region": _REGIONS[cluster % len(_REGIONS)],
        "disk_size_gb": 20,
        "pg_major_version": "17",
    }
