"""A handful of transcripts; all of them are played by `.ci/full`."""

import pytest

from tests.reliability.agents import play

pytestmark = pytest.mark.slow


def test_an_agent_changes_nothing_that_nobody_signed() -> None:
    assert play(10, first=0) == ""


def test_without_the_mark_the_same_transcripts_change_something() -> None:
    """The check can fail: an agent that unsets its variable is not held, as docs/security.md says."""
    assert "changed the platform" in play(10, first=0, marked=False)
