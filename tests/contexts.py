"""What a report of the tests is about."""

from datetime import UTC, datetime

from reconciler.core.context import Context

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def context(lineage: str = "lineage-1", at: datetime = NOW) -> Context:
    return Context(
        environment="prod",
        platform="https://platform.example",
        state="sqlite:.reconcile/prod/state.db",
        lineage=lineage or None,
        revision="3f2a9c1d4e5b60718293a4b5c6d7e8f901234567",
        dirty=True,
        version="1.2.3",
        at=at,
    )
