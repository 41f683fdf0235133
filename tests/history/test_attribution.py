"""Who runs something, where and why, as the journal keeps it: short, visible, and without credentials."""

from pathlib import Path

import pytest

from reconciler.core.context import Attribution
from reconciler.project.attribution import attribution_of, person
from reconciler.project.sections import Settings
from reconciler.project.settings import ProjectSettings

GITHUB = {
    "GITHUB_ACTOR": "ana",
    "GITHUB_SERVER_URL": "https://github.example",
    "GITHUB_REPOSITORY": "shop/infra",
    "GITHUB_RUN_ID": "8812345",
    "GITHUB_RUN_NUMBER": "12",
}


def said(variables: dict[str, str], reason: str = "") -> Attribution:
    return attribution_of(ProjectSettings(Settings(), Path(), variables=variables), reason)


def test_outside_of_ci_it_is_the_user_of_the_machine() -> None:
    assert said({}, "the ticket 12") == Attribution(person(), "", "the ticket 12")


def test_each_ci_service_says_who_and_where() -> None:
    run = "https://github.example/shop/infra/actions/runs"
    assert said(GITHUB) == Attribution("ana", f"{run}/8812345")
    assert said({**GITHUB, "GITHUB_TRIGGERING_ACTOR": "ben"}).actor == "ben"  # who ran it once more
    assert said({**GITHUB, "GITEA_ACTIONS": "true"}) == Attribution("ana", f"{run}/12")
    assert said({**GITHUB, "GITEA_ACTOR": "cleo"}).actor == "cleo"
    gitlab = {"GITLAB_USER_LOGIN": "dora", "CI_JOB_URL": "https://gitlab.example/shop/infra/-/jobs/7"}
    assert said(gitlab) == Attribution("dora", gitlab["CI_JOB_URL"])


def test_an_address_loses_its_credentials() -> None:
    url = said({"CI_JOB_URL": "https://bot:hunter2@gitlab.example/jobs/7?token=hunter2#hunter2"}).url
    assert url == "https://gitlab.example/jobs/7"
    assert said({"CI_JOB_URL": "javascript:alert(1)"}).url == ""
    assert said({"CI_JOB_URL": "https://[half"}).url == ""
    assert "hunter2" not in said({}, "see https://bot:hun@ter2@host/x and redis://:hunter2@db").reason


def test_our_own_credentials_are_not_repeated() -> None:
    found = said({"RECONCILE_TOKEN": "t0ken-of-ours", "GITHUB_ACTOR": "t0ken-of-ours"}, "t0ken-of-ours, too")
    assert found == Attribution("(sensitive)", "", "(sensitive), too")


@pytest.mark.parametrize("hidden", ["\x1b[2J", "\u202e", "\u200b", "\0", "\udcff"])
def test_nothing_in_it_is_invisible(hidden: str) -> None:
    found = said({"GITHUB_ACTOR": f"ana{hidden}", "CI_JOB_URL": f"https://a/{hidden}"}, f"why{hidden}not")
    for text in (found.actor, found.url, found.reason):
        assert text.isprintable()
        assert hidden not in text


def test_it_is_one_line_of_bounded_length() -> None:
    long = {"GITHUB_ACTOR": "a" * 9999, "CI_JOB_URL": f"https://a/{'b' * 9999}"}
    found = said(long, "one\n\ntwo\tthree " * 999)
    assert found.reason.startswith("one two three one")
    assert found.reason.endswith("…")
    assert [len(each) for each in (found.actor, found.url, found.reason)] == [100, 500, 500]


def test_a_decision_holds_what_is_known() -> None:
    assert Attribution("ana", "", "why").to_json() == {"by": "ana", "reason": "why"}
    assert str(Attribution("ana", "https://ci/1", "why")) == "ana (https://ci/1): why"
