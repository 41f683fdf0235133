"""Paths of the platform's API: what kind of request each one is."""

from functools import cache

from reconciler.kinds import find_kinds


def action(method: str, path: str) -> str:
    """What the platform counts as one action: method and path, where all objects of one app count as one.

    `GET apps/shop/volumes/*`. A kind says when each of its objects counts alone: `Kind.counted_alone`.
    Source: platform notes, "Errors, limits, headers".
    """
    parts = path.partition("?")[0][1:].split("/")[1:]  # `/v1/apps/shop/volumes?x=y`: apps, shop, volumes
    if parts[:1] == ["apps"] and len(parts) > 3 and parts[2] not in _counted_alone():
        parts[3] = "*"
    return f"{method} {'/'.join(parts)}"


def scope(path: str) -> str:
    """What a token must have access to for a request to `path`, in words."""
    parts = path.partition("?")[0].split("/")  # `/v1/apps/shop/volumes`: "", v1, apps, shop, volumes
    words = {"apps": "app", "postgres": "cluster"}
    if len(parts) > 3 and parts[2] in words:
        return f"{words[parts[2]]} `{parts[3]}`"
    return f"what {path} shows"


@cache
def _counted_alone() -> frozenset[str]:
    return frozenset(kind.counted_alone for kind in find_kinds().values() if kind.counted_alone)
