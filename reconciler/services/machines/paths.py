"""Paths of the platform's API: what kind of request each one is."""


def action(method: str, path: str) -> str:
    """What the platform counts as one action: method and path per app, machine and cluster.

    `GET apps/shop/volumes/*`. Source: platform notes, "Errors, limits, headers".
    """
    parts = path.partition("?")[0][1:].split("/")[1:]  # `/v1/apps/shop/volumes?x=y`: apps, shop, volumes
    if parts[:1] == ["apps"] and len(parts) > 3 and parts[2] != "machines":
        parts[3] = "*"
    return f"{method} {'/'.join(parts)}"
