"""The check against the reference provider as a process, which the sandbox signs people in to."""

from pathlib import Path

from reconciler.core.clock import SystemClock
from reconciler.providers.check.bench import SignInSubject, Subject
from tests.providers.check.bout import checked, failed
from tests.providers.postgres import Postgres
from tests.providers.serve import SIGNING_SECRET, WEBHOOK_SECRET
from tests.providers.together import ORGANIZATION, running_together

USER = {"id": "ann", "name": "Ann", "organizations": [{"id": ORGANIZATION, "role": "admin"}]}


def test_the_reference_provider_passes_with_sign_in_and_leaves_nothing_behind(
    postgres: Postgres, tmp_path: Path
) -> None:
    with running_together(postgres, tmp_path, "base64") as together:
        together.sandbox.call("POST", "/_sandbox/users", USER)
        before = postgres.databases(), postgres.roles()
        subject = Subject(
            base_url=together.provider.url,
            signing_secret=SIGNING_SECRET.encode(),
            webhook_secret=WEBHOOK_SECRET.encode(),
            encoding="base64",
            costs_path="/costs",
            sign_in=SignInSubject(together.sandbox.url, "ann"),
            organization_id=ORGANIZATION,
            user_id="ann",
        )
        # "a body that does not end" waits for the provider's 10 s, and is in test_kit.
        report = checked(
            subject,
            "calls",
            "repeats",
            "sign-in",
            "events",
            "refusals: POST*",
            "bounds: [!a]*",
            "bounds: a [!b]*",
            clock=SystemClock(),  # the provider, a process of its own, counts sign-ins in real time
        )
        assert failed(report) == {}
        assert report.count("not checked") == 0
        assert {result.group for result in report.results} == {
            "calls",
            "repeats",
            "sign-in",
            "events",
            "refusals",
            "bounds",
        }
        assert (postgres.databases(), postgres.roles()) == before
