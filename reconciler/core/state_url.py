"""The URL of a state: its backend, its form for people, and the URL of an environment's state."""

import re
from pathlib import PurePath

DEFAULT_URL = "sqlite:.reconcile/state.db"
DATABASES = frozenset({"postgresql", "postgres"})
OBJECTS = frozenset({"s3", "gs", "az"})
LEASE_S = 60.0  # how long a lease lasts in a shared store, unless it is renewed

# Host names with or without a port, as an authority that holds no credentials.
_HOST = r"(?:[\w.~-]*|\[[\da-fA-F:.]+\])(?::\d*)?"
_HOSTS = re.compile(rf"{_HOST}(?:,{_HOST})*")


def scheme_of(url: str) -> str:
    """Return the part of the URL before the first colon."""
    return url.partition(":")[0]


def is_shared(url: str) -> bool:
    """Whether the state is in a store that several machines reach."""
    return scheme_of(url) in DATABASES | OBJECTS


def shown_url(url: str) -> str:
    """Return the URL without user, password and options. Doubtful parts are left out, too."""
    scheme, colon, rest = url.partition(":")
    if scheme == "sqlite":
        return url
    hidden = f"{scheme}:…" if colon else "…"
    if not rest.startswith("//"):
        return hidden
    plain, _, options = rest[2:].partition("?")
    place = plain.rpartition("@")[2].partition("#")[0]  # a password may hold any of these signs unescaped
    if "@" in options or not _HOSTS.fullmatch(place.partition("/")[0]):
        return hidden
    return f"{scheme}://{place}"


def url_of_environment(url: str, environment: str) -> str:
    """Return the URL of the state of `environment`, where `url` is the project's.

    In files, the environment's name is a folder before the file's name. A store that is shared keeps the
    states of all environments apart at one URL.
    """
    scheme, _, rest = url.partition(":")
    if scheme != "sqlite" or not rest or not environment:
        return url
    return f"{scheme}:{PurePath(rest).parent / environment / PurePath(rest).name}"
