"""What a run is about, for the first line of its reports."""

from datetime import datetime
from urllib.parse import urlsplit

from reconciler.core.context import BASE, Context, Origin, program_version


def make_context(
    environment: str, platform: str | None, state_url: str, origin: Origin, lineage: str, at: datetime
) -> Context:
    """`environment`: "" for none. `state_url`: as `shown_url` has it. `lineage`: "" for no state yet."""
    return Context(
        environment=environment or BASE,
        platform=platform,
        state=state_url,
        lineage=lineage or None,
        revision=origin.revision,
        dirty=origin.dirty,
        version=program_version(),
        at=at,
    )


def without_credentials(url: str) -> str:
    """Scheme, host and path of `url`: a user, a password and options are left out."""
    if url.startswith("sqlite:"):
        return url
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
