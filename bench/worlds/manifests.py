"""A world's manifests, as a person writes them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.worlds.world import (
    World,
    app_name,
    cluster_fields,
    cluster_name,
    tier,
    volume_fields,
    volume_name,
)

_AT_MOST = 1_000  # volumes of an app in one file: a file may hold 500,000 keys and values


def write_manifests(root: Path, world: World) -> None:
    """`reconcile.yaml`, and the manifests below `manifests`."""
    folder = root / "manifests"
    folder.mkdir(parents=True)
    limited = "platform: {rate_limit_loopback: true}\n" if world.limited else ""
    (root / "reconcile.yaml").write_text(f"manifests: [manifests]\n{limited}")
    for name, documents in _files(world):
        (folder / name).write_text("---\n".join(documents))


def file_of(world: World, app: int, number: int) -> str:
    """Where a volume is declared, below `manifests`."""
    if world.files == "one":
        return "all.yaml"
    if world.files == "volume":
        return f"{app_name(app)}-{volume_name(number)}.yaml"
    part = number // _AT_MOST
    return f"{app_name(app)}-part-{part}.yaml" if part else f"{app_name(app)}.yaml"


def change_retention(root: Path, days: int) -> None:
    """Another retention for the first volume of the first app."""
    file = root / "manifests" / f"{app_name(0)}.yaml"
    field = "  snapshot_retention: "
    before, rest = file.read_text().split(field, 1)
    file.write_text(f"{before}{field}{days}\n{rest.partition(chr(10))[2]}")


def _files(world: World) -> Iterator[tuple[str, list[str]]]:
    files: dict[str, list[str]] = {}
    for app in range(world.apps):
        for number in range(world.volumes):
            documents = files.setdefault(file_of(world, app, number), [])
            documents.append(_volume(world, app, number))
        if world.files != "one":
            yield from files.items()
            files.clear()
    yield from files.items()
    for cluster in range(world.clusters):
        yield f"{cluster_name(cluster)}.yaml", [_cluster(cluster)]
    if world.policies:
        yield "policies.yaml", [_policy(number) for number in range(world.policies)]
    if world.max_age_h:
        yield (
            "fresh.yaml",
            [
                _document(
                    "RetentionPolicy", "fresh", f"  snapshot_max_age_h: {world.max_age_h}\n  selector: {{}}\n"
                )
            ],
        )


def _volume(world: World, app: int, number: int) -> str:
    fields = volume_fields(app, number)
    more = f"  app: {app_name(app)}\n"
    if world.policies:
        del fields["snapshot_retention"]
        more += f"  labels: {{tier: t{tier(world, app, number)}}}\n"
    return _document("Volume", volume_name(number), _yaml(fields), more)


def _policy(number: int) -> str:
    retention = volume_fields(0, number)["snapshot_retention"]
    spec = f"  selector: {{labels: {{tier: t{number}}}}}\n  snapshot_retention: {retention}\n"
    return _document("RetentionPolicy", f"keep-{number}", spec)


def _cluster(cluster: int) -> str:
    spec = "  org_slug: personal\n" + _yaml(cluster_fields(cluster))
    return _document("PostgresCluster", cluster_name(cluster), spec)


def _document(kind: str, name: str, spec: str, more: str = "") -> str:
    return f"apiVersion: reconciler/v1\nkind: {kind}\nmetadata:\n  name: {name}\n{more}spec:\n{spec}"


def _yaml(fields: dict[str, Any]) -> str:
    """Only text that looks like a number is quoted."""
    return "".join(
        f"  {name}: {value if isinstance(value, str) and value.isalpha() else json.dumps(value)}\n"
        for name, value in fields.items()
    )
