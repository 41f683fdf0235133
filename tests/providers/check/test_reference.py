"""The check against the tests' own provider: whole, and with one defect at a time."""

import json

import pytest

from reconciler.providers.check.refusals import FORGERIES
from reconciler.providers.check.run import document, junit, line, selected, summary
from tests.providers.check.bout import HastyClock, checked, failed, subject_of
from tests.providers.check.reference import SIGNING, WEBHOOK, Reference, serving


def test_a_provider_that_does_all_that_is_demanded_passes_every_check() -> None:
    with serving(Reference()) as app:
        report = checked(subject_of(app))
    assert failed(report) == {}
    assert report.count("passed") == len(report.results) == len(selected(None))
    assert report.passed


def test_a_provider_that_is_busy_after_it_used_up_the_nonce_is_asked_with_another_one() -> None:
    with serving(Reference("is busy")) as app:
        report = checked(subject_of(app), "calls", "repeats")
    assert failed(report) == {}
    assert report.passed


def test_a_refusal_may_be_as_long_as_the_page_of_a_gateway() -> None:
    with serving(Reference(words="unauthorized, " * 100)) as app:
        report = checked(subject_of(app), "refusals: GET with *", "refusals: POST with *", "bounds")
    assert failed(report) == {}


def test_a_provider_that_is_busy_is_asked_again_after_the_time_that_it_names() -> None:
    clock = HastyClock()
    with serving(Reference(busy=["3", "\N{SUPERSCRIPT TWO}", "Thu, 01 Jan 2026 00:00:00 GMT"])) as app:
        report = checked(subject_of(app), "calls: GET of an unknown id", clock=clock)
    assert failed(report) == {}
    assert clock.slept_s == 5.0  # a time that cannot be read counts as 1 s


def test_what_the_check_made_is_deleted() -> None:
    with serving(Reference()) as app:
        report = checked(subject_of(app), "calls", "repeats")
    assert app.resources == {}
    assert report.left == []


def test_more_than_sixty_forgeries_are_tried() -> None:
    assert len(selected("refusals")) >= 60
    assert len({forgery.name for forgery in FORGERIES}) == len(FORGERIES) >= 60


# The defect, and the check that has to find it.
DEFECTS = {
    "does not compare the url": "refusals: DELETE signed for another resource",
    "compares the path alone": "refusals: POST signed for another host",
    "does not look at the time": "refusals: POST signed too early",
    "does not store nonces": "refusals: GET replayed at once",
    "remembers the last two nonces": "refusals: GET replayed after other calls",
    "uses up the nonces of forgeries": "refusals: a refused request does not use up its nonce",
    "verifies after parsing": "refusals: POST serialised again",
    "takes the webhook secret": "refusals: POST under the webhook secret",
    "takes an empty secret": "refusals: DELETE under an empty secret",
    "takes the first of two headers": "refusals: GET with two headers, the second wrong",
    "takes the last of several signatures": "refusals: DELETE with two headers, the first wrong",
    "signs its prefix only": "refusals: POST with a longer signature",
    "tells why it refuses": "refusals: POST signed too late",
    "deletes without a signature": "refusals: DELETE without a signature",
    "acts before it verifies": "refusals: POST with an empty signature",
    "makes a new password each time": "repeats: one after the other",
    "makes two when asked at once": "repeats: 4 at once",
    "fails at unknown ids": "calls: GET of an unknown id",
    "gives a number in config": "calls: POST provisions",
    "gives a key with a dash": "calls: POST provisions",
    "gives an id that no path can hold": "calls: POST provisions",
    "answers in UTF-16": "calls: POST provisions",
    "has one resource for all orders": "calls: an order of another id",
    "knows only the id that it was sent": "calls: GET shows the status",
    "shows no status": "calls: GET shows the status",
    "ignores PATCH": "calls: PATCH changes it",
    "ignores another name": "calls: PATCH of the name",
    "refuses another name, and takes it": "calls: PATCH of the name",
    "answers DELETE and keeps it": "calls: DELETE removes it",
    "is never ready": "calls: it becomes ready",
    "ends in error": "calls: it becomes ready",
    "demands a nonce of events": "events: a signed event is taken",
    "takes events without a signature": "events: an event unsigned is refused",
    "takes a body of any size": "bounds: a POST of more than 1 MiB",
    "waits for a body for ever": "bounds: a body that does not end",
    "fails at deep JSON": "bounds: JSON that is nested too deeply",
    "redirects to no address": "sign-in: it starts at the platform",
    "leads on without encryption": "sign-in: it ends at the resource",
    "signs in without a state": "sign-in: with a `state`",
    "signs in with a fixed state": "sign-in: with a `state`",
    "signs in without PKCE": "sign-in: with PKCE",
    "lets in any organization": "sign-in: from another organization",
    "keeps the session of a stranger": "sign-in: from another organization",
    "shows its page to anybody": "sign-in: the page without a session",
    "takes any way back": "sign-in: in another browser",
    "takes the same way back twice": "sign-in: the same callback twice",
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_found_by_the_check_that_is_made_for_it(defect: str) -> None:
    found_by = DEFECTS[defect]
    with serving(Reference(defect)) as app:
        report = checked(subject_of(app, slow_body_s=2.0), found_by)
    assert list(failed(report)) == [found_by]
    assert not report.passed


# The oddity, and the group of checks that meets it.
ODDITIES = {
    "shows an object for its status": "calls",
    "gives an array for its id": "repeats",
}


@pytest.mark.parametrize("oddity", ODDITIES)
def test_no_answer_ends_the_run(oddity: str) -> None:
    group = ODDITIES[oddity]
    with serving(Reference(oddity)) as app:
        report = checked(subject_of(app), group)
    assert len(report.results) == len(selected(group))
    assert failed(report)


def test_a_failure_says_what_was_sent_what_came_and_what_is_demanded_without_secrets() -> None:
    with serving(Reference("gives a number in config")) as app:
        report = checked(subject_of(app), "calls: POST provisions")
    (result,) = report.results
    printed = line(result)
    assert "FAIL calls: POST provisions" in printed
    assert "the value of `config.DATABASE_PORT` is not text but a number" in printed
    assert "required: a signed POST" in printed
    assert "platform API, 4.5 and 2.8" in printed
    assert f"POST {app.url}/extensions" in printed
    assert "X-Signature: (masked, 64 characters)" in printed
    assert '"DATABASE_URL": "(sensitive)"' in printed
    assert summary(report) == "0 passed, 1 failed"


@pytest.mark.parametrize(
    "defect",
    [
        "makes a new password each time",
        "gives a number in config",
        "tells why it refuses",
        "repeats a value in its status",
        "refuses a PATCH, and repeats a value",
        "refuses a PATCH, and repeats a value far to the right",
        "refuses a PATCH, and repeats a key of several lines",
    ],
)
def test_no_secret_and_no_signature_gets_into_a_report(defect: str) -> None:
    with serving(Reference(defect)) as app:
        seen: list[str] = []
        provision = app._provision

        def noting(fields: dict[str, object]) -> dict[str, object]:
            made = provision(fields)
            seen.extend(part[:8] for part in str(made["secret"]).splitlines())
            return made

        app._provision = noting  # type: ignore[method-assign, assignment]
        report = checked(subject_of(app), "calls", "repeats", "refusals: POST signed*")
    texts = [json.dumps(document(report)), junit(report), *map(line, report.results)]
    assert seen
    for secret in (*seen, SIGNING.decode(), WEBHOOK.decode()):
        assert not [text for text in texts if secret in text]


def test_without_a_sign_in_service_nothing_of_it_counts_as_passed() -> None:
    with serving(Reference()) as app:
        subject = subject_of(app, sign_in=None, costs_path=None, webhook_secret=None)
        report = checked(subject, "sign-in", "calls: GET of the costs", "refusals: POST under *")
    missing = {result.title for result in report.results if result.outcome == "not checked"}
    assert {title for title in missing if title.startswith("sign-in")} == {
        check.title for check in selected("sign-in")
    }
    assert "calls: GET of the costs" in missing
    assert "refusals: POST under the webhook secret" in missing
    assert failed(report) == {}


def test_another_organization_is_not_checked_where_no_user_of_one_can_be_made() -> None:
    with serving(Reference("lets in any organization", makes_users=False)) as app:
        (result,) = checked(subject_of(app), "sign-in: from another organization").results
    assert (result.outcome, "not a sandbox" in result.problem) == ("not checked", True)


def test_refusals_of_events_are_not_checked_where_a_good_event_is_refused() -> None:
    with serving(Reference("demands a nonce of events")) as app:
        report = checked(subject_of(app), "events")
    assert list(failed(report)) == ["events: a signed event is taken"]
    assert report.count("not checked") == len(report.results) - 1
    assert "without `url`, `nonce` or `timestamp`" in line(report.results[0])


def test_with_a_wrong_secret_nothing_was_made_and_nothing_is_said_to_be_left() -> None:
    with serving(Reference()) as app:
        report = checked(
            subject_of(app, signing_secret=b"another"), "calls", "refusals: POST*", "bounds: [!a]*"
        )
    assert report.left == []
    assert "calls: POST provisions" in failed(report)
    assert not [title for title in failed(report) if title.startswith(("refusals: POST", "bounds: a p"))]


def test_what_may_have_been_made_and_could_not_be_deleted_is_named() -> None:
    with serving(Reference("answers DELETE with an error")) as app:
        report = checked(subject_of(app), "calls: POST provisions")
    assert report.left == list(app.resources)
    assert len(report.left) == 1


def test_junit_names_each_check_once_and_holds_its_outcome() -> None:
    from junitparser import JUnitXml

    with serving(Reference("fails at unknown ids")) as app:
        report = checked(subject_of(app, costs_path=None), "calls")
    suites = list(JUnitXml.fromstring(junit(report).encode()))
    cases = {case.name: case for suite in suites for case in suite}
    assert len(cases) == len(report.results)
    assert cases["GET of an unknown id"].is_failure
    assert cases["GET of the costs"].is_skipped
    assert cases["POST provisions"].is_passed


def test_a_provider_that_does_not_answer_fails_and_nothing_is_reported_as_passed() -> None:
    with serving(Reference()) as app:
        subject = subject_of(app)
    report = checked(subject, "calls", "events", "refusals: GET *")
    assert report.count("passed") == 0
    assert report.count("failed") > 0
    assert not report.passed
