"""One comment for each environment, whatever the host does: on doubles of three hosts, in simulated time."""

import dataclasses
import re
from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from reconciler.core.diagnostics import error
from reconciler.core.errors import ReconcilerError
from reconciler.hosts.job import Given, Job, job_of
from reconciler.hosts.publish import Shown, is_of, run_of, show
from reconciler.reports.report import PlanReport, Report, ValidationReport
from tests.contexts import NOW, context
from tests.hosts.doubles import ACTIONS, HEAD, MERGE, NUMBER, OLDER, REPOSITORY, TOKEN, Fault, World, serving
from tests.reports.plans import EMPTY, PLAN
from tests.services.script import SimulatedClock

KINDS = ("github", "gitlab", "gitea")
each_host = pytest.mark.parametrize("kind", KINDS)
nonces = (f"{number:016x}" for number in count(1))


@pytest.fixture
def world(kind: str) -> Iterator[World]:
    with serving(kind) as world:
        yield world


@pytest.fixture
def hub() -> Iterator[World]:
    with serving("github") as world:
        yield world


def job(world: World, commit: str = HEAD, **details: Any) -> Job:
    """What the variables of a run for the pull request say."""
    if world.kind == "gitlab":
        variables = {
            "GITLAB_CI": "true",
            "CI_API_V4_URL": world.api,
            "CI_PROJECT_ID": "42",
            "CI_MERGE_REQUEST_IID": str(NUMBER),
            "CI_MERGE_REQUEST_PROJECT_URL": f"{world.url}/{REPOSITORY}",
            "CI_COMMIT_SHA": commit,
            "GITLAB_TOKEN": TOKEN,
        }
    else:
        variables = {
            "GITHUB_ACTIONS": "true",
            "GITEA_ACTIONS": "true" if world.kind == "gitea" else "",
            "GITHUB_API_URL": world.api,
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_REF": f"refs/pull/{NUMBER}/merge",
            "GITHUB_SHA": MERGE,
            "GITHUB_TOKEN": TOKEN,
        }
    return dataclasses.replace(job_of(variables, b"", Given(commit=commit)), **details)


def plan(revision: str | None = HEAD, *, later_s: float = 0, changes: int = 0, env: str = "prod") -> Report:
    about = replace(
        context(at=NOW + timedelta(seconds=later_s)), revision=revision, dirty=False, environment=env
    )
    made = replace(PLAN if changes else EMPTY, context=about, diagnostics=())
    return PlanReport(plan=replace(made, unchanged=changes))


def shown(world: World, *reports: Report, commit: str = HEAD, of: Job | None = None, **options: Any) -> Shown:
    async def work() -> Shown:
        nonce, clock = next(nonces), options.pop("clock", SimulatedClock())
        return await show(of or job(world, commit), reports, nonce=nonce, clock=clock, **options)

    return anyio.run(work)


def current(world: World, env: str = "prod") -> list[str]:
    return [each.body for each in world.comments if is_of(env, each.body)]


@each_host
def test_the_first_comment_takes_one_page_and_one_write(world: World) -> None:
    done = shown(world, plan(), sets_status=False)
    assert (done.action, done.status) == ("created", None)
    assert [method for method, _ in world.log] == ["GET", "POST"]
    (body,) = current(world)
    assert body.startswith("<!-- reconcile:prod -->\n")
    assert "No changes" in body
    assert done.url.endswith(("#issuecomment-1", "#note_1"))
    assert world.strangers == []


@each_host
def test_it_is_updated_in_place_and_only_where_it_says_something_else(world: World) -> None:
    shown(world, plan(), sets_status=False)
    world.say("ana", "looks good")
    del world.log[:]
    done = shown(world, plan(later_s=60, changes=1), sets_status=False)
    assert done.action == "updated"
    # Also whose comment it is, and whether the report is about the head.
    assert [method for method, _ in world.log] == ["GET", "GET", "GET", world.edits]
    (body,) = current(world)
    assert "to delete" in body
    del world.log[:]
    assert shown(world, plan(later_s=120, changes=1), sets_status=False).action == "unchanged"
    assert {method for method, _ in world.log} == {"GET"}
    del world.log[:]
    done = shown(world, plan(later_s=180), sets_status=False, author=world.author)
    assert done.action == "updated"
    assert [method for method, _ in world.log] == ["GET", "GET", world.edits]


@each_host
def test_each_environment_has_a_comment_of_its_own(world: World) -> None:
    for env in ("prod", "prod-2", "base"):
        assert shown(world, plan(env=env)).action == "created"
    assert [len(current(world, env)) for env in ("prod", "prod-2", "base")] == [1, 1, 1]


@each_host
def test_a_comment_on_a_later_page_is_found(world: World) -> None:
    for _ in range(130):
        world.say("ana", "hm")
    shown(world, plan())
    for _ in range(230):
        world.say("bo", "hm")
    assert shown(world, plan(later_s=1, changes=1)).action == "updated"
    assert len(current(world)) == 1


@each_host
def test_our_mark_in_a_comment_of_somebody_else_is_not_ours(world: World) -> None:
    theirs = world.say(
        "mallory", "<!-- reconcile:prod -->\n<!-- reconcile-run: commit=- at=9999 nonce=0 -->\nx"
    )
    quoted = world.say(world.author, "> <!-- reconcile:prod -->")
    before = (theirs.body, quoted.body)
    assert shown(world, plan()).action == "created"
    assert shown(world, plan(later_s=1, changes=1)).action == "updated"
    assert (theirs.body, quoted.body) == before
    assert len(world.comments) == 3


def test_who_cannot_be_asked_is_the_user_of_the_job() -> None:
    with serving("github", me="") as world:
        world.say("mallory", "<!-- reconcile:prod -->\nx")
        shown(world, plan())
        assert shown(world, plan(later_s=1, changes=1)).action == "updated"
        assert [each.author for each in world.comments] == ["mallory", ACTIONS]


def test_a_token_of_an_app_is_not_asked_whose_it_is() -> None:
    with serving("github", me="", token="ghs_abc") as world:
        of = job(world, token="ghs_abc")
        shown(world, plan(), of=of)
        shown(world, plan(later_s=1, changes=1), of=of)
        assert world.seen("GET").count("/user") == 0
        assert len(world.comments) == 1


def test_an_app_whose_name_nobody_can_ask_leaves_one_comment() -> None:
    """Its first answer tells the name: what it wrote before is folded then."""
    with serving("github", me="shop-bot[bot]", token="ghs_abc") as world:
        of = job(world, token="ghs_abc")
        for second in range(3):
            assert shown(world, plan(later_s=second, changes=second), of=of).action == "created"
        assert len(current(world)) == 1
        again = shown(world, plan(later_s=9, changes=9), of=of, author="shop-bot[bot]")
        assert again.action == "updated"


@each_host
def test_the_name_of_an_author_may_be_given_in_any_case(world: World) -> None:
    shown(world, plan(later_s=9))
    assert shown(world, plan(changes=1), author=world.author.upper()).action == "stale"
    assert shown(world, plan(later_s=19, changes=1), author=world.author.upper()).action == "updated"
    assert len(world.comments) == 1


@each_host
def test_new_keeps_the_history_and_folds_it(world: World) -> None:
    shown(world, plan())
    done = shown(world, plan(later_s=1, changes=1), keeps_history=True)
    assert done.action == "created"
    (body,) = current(world)
    assert "to delete" in body
    assert "Superseded" in world.comments[0].body
    assert "No changes" in world.comments[0].body
    shown(world, plan(later_s=2, changes=2))
    assert len(world.comments) == 2
    assert len(current(world)) == 1


@each_host
def test_two_runs_that_met_are_brought_to_one_comment(world: World) -> None:
    shown(world, plan())
    world.comments.append(dataclasses.replace(world.comments[0], id=99))
    shown(world, plan(later_s=1, changes=1))
    assert len(current(world)) == 1


# --- what is newer ---


@each_host
def test_an_older_run_leaves_the_comment_of_a_newer_one_alone(world: World) -> None:
    shown(world, plan(later_s=60, changes=1))
    before = world.comments[0].body
    done = shown(world, plan())
    assert (done.action, done.status) == ("stale", None)
    assert world.comments[0].body == before


@each_host
def test_a_run_that_is_repeated_for_an_older_commit_leaves_the_newer_one_alone(world: World) -> None:
    shown(world, plan(changes=1))
    before = world.comments[0].body
    done = shown(world, plan(OLDER, later_s=300), commit=OLDER)
    assert (done.action, done.status) == ("stale", None)
    assert [each.body for each in world.comments] == [before]


@each_host
def test_a_run_for_a_newer_commit_replaces_the_older_one_whatever_the_clocks_say(world: World) -> None:
    world.head = OLDER
    shown(world, plan(OLDER, later_s=60), commit=OLDER)
    world.head = HEAD
    assert shown(world, plan(changes=1)).action == "updated"
    assert run_of(current(world)[0]).commit == HEAD


@each_host
def test_a_plan_of_another_commit_is_marked(world: World) -> None:
    """Such as that of an artifact which was kept too long."""
    done = shown(world, plan(OLDER))
    assert (done.action, done.status) == ("stale", None)
    (body,) = current(world)
    assert "**Outdated:**" in body
    assert world.statuses == []
    assert shown(world, plan(later_s=1)).action == "updated"
    assert "**Outdated:**" not in current(world)[0]


@each_host
def test_a_comment_is_marked_once_the_pull_request_went_on(world: World) -> None:
    """Whatever the job's own variables say: they are as old as the job."""
    shown(world, plan())
    world.head = OLDER
    assert shown(world, plan()).action == "stale"
    assert "**Outdated:**" in current(world)[0]
    assert len(world.comments) == 1


def test_what_does_not_say_when_it_was_made_is_made_now_by_the_hosts_clock(hub: World) -> None:
    assert shown(hub, ValidationReport(), env="prod").action == "created"
    assert run_of(hub.comments[0].body).at == NOW + timedelta(minutes=10)


def test_where_nothing_says_the_head_the_host_is_asked(hub: World) -> None:
    assert shown(hub, plan(MERGE), of=job(hub, "")).status == "success"
    assert hub.statuses[0]["commit"] == HEAD
    hub.head = OLDER
    assert shown(hub, plan("d" * 40, later_s=1), of=job(hub, "")).action == "stale"
    assert "**Outdated:**" in current(hub)[0]


def test_the_merge_that_the_job_checked_out_counts_as_the_head(hub: World) -> None:
    assert shown(hub, plan(MERGE)).action == "created"
    assert hub.seen("GET") == [f"/repos/{REPOSITORY}/issues/{NUMBER}/comments"]
    assert hub.statuses[0]["commit"] == HEAD


def test_a_later_job_writes_nothing_unless_the_host_shows_its_commit(hub: World) -> None:
    """In a workflow_run, the number may come from a stranger: it must be the pull request of that run."""
    of = job(hub, OLDER, runs_later=True, also=frozenset())
    assert shown(hub, plan(HEAD), of=of).action == "stale"
    assert hub.comments == []
    assert shown(hub, plan("e" * 40), of=dataclasses.replace(of, commit=HEAD)).action == "created"


def test_a_report_from_the_future_is_refused_before_anything_is_written(hub: World) -> None:
    with pytest.raises(ReconcilerError, match="clock") as refused:
        shown(hub, plan(later_s=3600))
    assert "clock" in refused.value.help
    assert hub.comments == []


def test_a_comment_from_the_future_does_not_stay_for_ever(hub: World) -> None:
    shown(hub, plan())
    hub.comments[0].body = hub.comments[0].body.replace("at=2026", "at=2036")
    assert shown(hub, plan(later_s=1, changes=1)).action == "updated"


# --- what hosts do ---


@each_host
def test_a_lost_answer_makes_no_second_comment(world: World) -> None:
    world.faults.append(Fault("POST", world.listed, after=True))
    done = shown(world, plan())
    assert done.action == "created"
    assert len(world.comments) == 1


def test_somebody_elses_comment_is_not_taken_for_the_one_whose_answer_was_lost(hub: World) -> None:
    theirs = hub.say("mallory", "<!-- reconcile:prod -->\n")
    hub.faults.append(Fault("POST", "/comments", after=True))
    assert shown(hub, plan()).url.endswith("#issuecomment-2")
    hub.comments[:] = [theirs]
    hub.faults.append(Fault("POST", "/comments"))
    with pytest.raises(ReconcilerError, match="not known whether"):
        shown(hub, plan())


@each_host
def test_an_error_after_the_comment_was_made_makes_no_second_one(world: World) -> None:
    world.faults.append(Fault("POST", world.listed, 502, after=True))
    assert shown(world, plan()).action == "created"
    assert len(world.comments) == 1


@each_host
def test_a_comment_that_may_not_have_been_made_is_not_sent_again(world: World) -> None:
    world.faults.append(Fault("POST", world.listed))
    with pytest.raises(ReconcilerError, match="not known whether") as refused:
        shown(world, plan())
    assert "run the same command again" in refused.value.help
    assert len(world.seen("POST")) == 1
    assert shown(world, plan()).action == "created"
    assert len(world.comments) == 1


@each_host
def test_a_comment_that_was_deleted_meanwhile_is_made_again_once(world: World) -> None:
    shown(world, plan())
    world.faults.append(Fault(world.edits, "/", 404, body={"message": "Not Found"}))
    del world.log[:]
    assert shown(world, plan(later_s=1, changes=1), sets_status=False).action == "created"
    assert len(world.seen("POST")) == 1


@each_host
def test_a_failing_host_is_asked_again_for_what_does_nothing_twice(world: World) -> None:
    shown(world, plan())
    world.faults += [
        Fault("GET", "/", 503, times=2),
        Fault(world.edits, "/", times=1),
        Fault("POST", "/statuses", 500),
    ]
    done = shown(world, plan(later_s=1, changes=1))
    assert (done.action, done.status) == ("updated", "success")


def test_a_host_that_goes_on_failing_is_told_of(hub: World) -> None:
    hub.faults.append(Fault("GET", "/", 503, body={"message": "down"}, times=99))
    with pytest.raises(ReconcilerError, match=r"HTTP 503\): down"):
        shown(hub, plan())
    assert len(hub.log) == 4


@pytest.mark.parametrize(
    ("status", "headers", "message", "waited_s"),
    [
        (429, {"retry-after": "30"}, "", 30),
        (403, {"retry-after": "45"}, "", 45),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1780315890"}, "", 90),
        (429, {"ratelimit-reset": "1780315890"}, "", 90),
        (403, {}, "You have exceeded a secondary rate limit", 60),
    ],
)
def test_a_limit_is_waited_for(
    hub: World, status: int, headers: dict[str, str], message: str, waited_s: float
) -> None:
    told: list[str] = []
    clock = SimulatedClock()
    hub.faults.append(Fault("POST", "/comments", status, headers, {"message": message}))
    assert shown(hub, plan(), clock=clock, tell=told.append).action == "created"
    assert clock.elapsed_s == waited_s
    assert told == [f"the git host limits requests: waiting {waited_s} s"]
    assert len(hub.comments) == 1


def test_a_limit_that_lasts_too_long_is_told_of(hub: World) -> None:
    hub.faults.append(Fault("GET", "/comments", 429, {"retry-after": "3000"}))
    with pytest.raises(ReconcilerError, match="3000 s more") as refused:
        shown(hub, plan())
    assert "again in 3000 s" in refused.value.help


@each_host
@pytest.mark.parametrize("limited", ["comment", "status"])
def test_a_run_that_waited_for_a_limit_leaves_what_a_newer_one_wrote_meanwhile(
    world: World, limited: str
) -> None:
    class Meanwhile(SimulatedClock):
        """A newer run, of a plan that failed, does its work while this one sleeps."""

        async def sleep(self, seconds: float) -> None:
            about = replace(context(at=NOW + timedelta(seconds=9)), revision=HEAD)
            newer = PlanReport(plan=replace(EMPTY, context=about), diagnostics=(error("failed", "no"),))
            await show(job(world), [newer], nonce=next(nonces), clock=SimulatedClock())
            await super().sleep(seconds)

    shown(world, plan())
    method, path = ("POST", "/statuses") if limited == "status" else (world.edits, "")
    world.faults.append(Fault(method, path, 429, {"retry-after": "30"}))
    done = shown(world, plan(later_s=5, changes=1), clock=Meanwhile())
    assert (done.action, done.status) == ("stale", None)
    (body,) = current(world)
    assert run_of(body).at == NOW + timedelta(seconds=9)
    assert world.statuses[-1]["state"] in ("failure", "failed")


def test_a_status_after_a_wait_is_that_of_the_comment_that_was_made(hub: World) -> None:
    hub.faults.append(Fault("POST", "/statuses", 429, {"retry-after": "30"}))
    done = shown(hub, plan())
    assert (done.action, done.status, len(hub.statuses)) == ("created", "success", 1)


def test_limits_are_waited_for_up_to_a_bound_in_all(hub: World) -> None:
    hub.faults.append(Fault("GET", "/comments", 429, {"retry-after": "70"}, times=99))
    clock = SimulatedClock()
    with pytest.raises(ReconcilerError, match="limits requests"):
        shown(hub, plan(), clock=clock)
    assert clock.elapsed_s == 280


@each_host
def test_a_token_that_may_only_read_is_told_what_to_do(world: World) -> None:
    world.reads_only = True
    with pytest.raises(ReconcilerError, match="may not comment on the") as refused:
        shown(world, plan())
    assert "fork" in refused.value.help
    assert "pull_request_target" not in refused.value.help
    if world.kind == "github":
        assert "workflow_run" in refused.value.help
    assert world.comments == []


@each_host
def test_a_wrong_token_and_another_pull_request_are_told_of(world: World) -> None:
    of = job(world)
    with pytest.raises(ReconcilerError, match=f"does not know the token in {of.token_variable}") as refused:
        shown(world, plan(), of=dataclasses.replace(of, token="hunter2"))
    assert "hunter2" not in refused.value.message + refused.value.help
    with pytest.raises(ReconcilerError, match=rf"shows no \S+#{NUMBER + 1}"):
        shown(world, plan(), of=dataclasses.replace(of, number=NUMBER + 1))


def test_a_host_that_repeats_the_token_does_not_bring_it_into_a_message(hub: World) -> None:
    for status in (401, 403, 404, 418, 500):
        hub.faults.append(Fault("GET", "/", status, body={"message": f"no {TOKEN}"}, times=4))
        with pytest.raises(ReconcilerError) as refused:
            shown(hub, plan())
        assert TOKEN not in refused.value.message
        assert "(sensitive)" in refused.value.message
        hub.faults.clear()


def test_an_address_that_is_no_link_for_people_is_not_shown(hub: World) -> None:
    url = "https://git.example/\x1b[2J\nStatus: success"
    made = {"id": 1, "body": "", "user": {"login": hub.author}, "html_url": url}
    hub.faults.append(Fault("POST", "/comments", 201, body=made))
    done = shown(hub, plan())
    assert (done.action, done.url, done.status) == ("created", "", "success")


def test_a_redirect_is_not_followed_and_the_token_goes_nowhere_else(hub: World) -> None:
    with serving("github") as other:
        hub.faults.append(Fault("GET", "/", 301, {"location": f"{other.api}/x"}, {"message": "Moved"}))
        with pytest.raises(ReconcilerError, match="elsewhere now"):
            shown(hub, plan())
        assert other.log == []


def test_something_else_than_a_git_host_is_told_of(hub: World) -> None:
    hub.faults.append(Fault("GET", "/", 200, body={"hello": 1}))
    with pytest.raises(ReconcilerError, match="is not the API of github"):
        shown(hub, plan())


def test_an_api_that_is_not_encrypted_gets_no_token(hub: World) -> None:
    with pytest.raises(ReconcilerError, match="unencrypted"):
        shown(hub, plan(), of=job(hub, api="http://git.example/api/v3"))


# --- statuses ---


@each_host
def test_the_commit_gets_a_status_with_the_verdict(world: World) -> None:
    done = shown(world, plan(changes=1), details_url="https://ci.example/7")
    (status,) = world.statuses
    assert done.status == "success"
    assert status["commit"] == HEAD
    assert status.get("context", status.get("name")) == "reconcile/prod"
    assert status["description"].startswith("Plan: 1 to delete")
    assert status["target_url"] == "https://ci.example/7"


def test_a_status_that_is_refused_leaves_the_comment_and_says_so(hub: World) -> None:
    hub.faults.append(Fault("POST", "/statuses", 403, body={"message": "Resource not accessible"}))
    with pytest.raises(ReconcilerError, match="the comment is written") as refused:
        shown(hub, plan())
    assert "statuses: write" in refused.value.help
    assert len(hub.comments) == 1


def test_gitlab_refuses_a_status_that_is_so_already_and_that_is_well() -> None:
    from reconciler.core.steps import Result
    from reconciler.reports.report import ApplyReport
    from tests.reports.reports import ADDRESS

    with serving("gitlab") as world:
        about = replace(context(at=NOW), revision=HEAD)
        pending = Result(ADDRESS, "step", "pending")
        report = ApplyReport(plan=replace(EMPTY, context=about), results=(pending,))
        assert [shown(world, report).status for _ in range(2)] == ["pending", "pending"]
        assert len(world.statuses) == 1


def test_reports_of_several_environments_are_not_mixed(hub: World) -> None:
    with pytest.raises(ReconcilerError, match="several environments: prod, dev"):
        shown(hub, plan(), plan(env="dev"))
    with pytest.raises(ReconcilerError, match="several environments"):
        shown(hub, plan(), env="dev")
    assert hub.log == []


@pytest.mark.parametrize("env", ["x --> <b>", "a/b", "", "PROD", "x" * 64])
def test_an_environment_that_cannot_be_one_is_refused(hub: World, env: str) -> None:
    with pytest.raises(ReconcilerError, match="is not the name of an environment"):
        shown(hub, plan(env=env))
    assert hub.log == []


def test_a_comment_holds_its_mark_once(hub: World) -> None:
    shown(hub, plan())
    assert len(re.findall("<!--", hub.comments[0].body)) == 2
