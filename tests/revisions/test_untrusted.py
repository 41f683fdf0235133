"""`--untrusted`: a hostile pull request gets no token, file, program or request, and no misleading plan."""

import json
import os
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path

import anyio
import pytest

from reconciler import api
from tests.cli.harness import TOKEN, Sandbox
from tests.inprocess import Command, Ended, secret, volume
from tests.revisions.repository import commit, git
from tests.servers import in_a_thread

CANARY = "canary-7f3a91"
VERBS = ("validate", "build", "plan", "graph")
_numbers = count(1)


@pytest.fixture
def sink() -> Iterator[tuple[str, list[str]]]:
    """A server of the attacker, and every request that it got."""
    got: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            got.append(f"{self.requestline}\n{self.headers}")
            body = b'{"error": "sink-words"}'
            self.send_response(404)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    with in_a_thread(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as url:
        yield url, got


def provider(base_url: str, source: str = "env: SIGNING", name: str = "db") -> str:
    return (
        f"---\napiVersion: reconciler/v1\nkind: ExtensionProvider\nmetadata: {{name: {name}}}\n"
        f"spec: {{base_url: '{base_url}', signing_secret_from: {{{source}}}}}\n"
    )


@pytest.fixture
def project(reconcile: Command, sandbox: Sandbox, tmp_path: Path) -> Command:
    """`main` is applied; the branch `foreign` is checked out, as a runner has it."""
    app = sandbox.app(f"app{next(_numbers)}")
    reconcile.write("manifests/data.yaml", volume("data", app=app))
    reconcile.write("manifests/logs.yaml", volume("logs", app=app))
    reconcile.write("manifests/key.yaml", secret("KEY", "env: SHOP_KEY", app=app))
    reconcile.write("manifests/file.yaml", secret("FILED", "file: value.txt", app=app))
    reconcile.write("manifests/value.txt", "first")
    reconcile.write(
        "manifests/program.yaml", secret("RAN", "exec: [sh, -c, 'echo ran >> runs; echo v']", app=app)
    )
    reconcile.write("manifests/db.yaml", provider("http://127.0.0.1:9"))
    reconcile.write("reconcile.yaml", f"platform: {{base_url: '{sandbox.url}'}}\nsecrets: {{exec: [sh]}}\n")
    reconcile.write(".gitignore", "runs\n")
    commit(reconcile.root)
    (tmp_path / "home").mkdir()
    (tmp_path / "home/credentials").write_text(
        f"[default]\naws_secret_access_key = {CANARY}\nkind: {CANARY}\n"
    )
    (tmp_path / "home/credentials.yaml").write_text(f"{CANARY}: {CANARY}\n")
    reconcile.variables |= {
        "RECONCILE_TOKEN": TOKEN,
        "RECONCILE_SETTLE_S": "1",
        "RECONCILE_CAPABILITIES": "extended",
        "RECONCILE_STATE": f"sqlite:{tmp_path}/state/state.db",
        "SHOP_KEY": f"{CANARY}-key",
        "SIGNING": f"{CANARY}-signing",
        "AWS_SECRET_ACCESS_KEY": f"{CANARY}-aws",
        "APP": app,
    }
    reconcile("state init")
    reconcile("apply --auto-approve")
    (reconcile.root / "runs").unlink()
    git(reconcile.root, "checkout", "-q", "-b", "foreign")
    return reconcile


def each_verb(project: Command, code: int | None = None) -> dict[str, Ended]:
    """What each verb says of the commit that is checked out; nothing of it may be a canary."""
    commit(project.root)
    ran = {verb: project(f"{verb} --untrusted main", code=code) for verb in VERBS}
    for ended in ran.values():
        assert CANARY not in ended.out + ended.err
        assert TOKEN not in (ended.out + ended.err).replace("sandbox.db", "")
    assert not (project.root / "runs").exists()
    return ran


def warned(ended: Ended) -> list[str]:
    return [line for line in ended.err.splitlines() if line.startswith("warning[untrusted-change]")]


def test_an_equal_project_has_no_warning_and_an_empty_plan(project: Command) -> None:
    ran = each_verb(project, 0)
    assert not any(map(warned, ran.values()))
    assert "No changes" in ran["plan"].out


def test_the_token_goes_to_no_other_address(project: Command, sink: tuple[str, list[str]]) -> None:
    url, got = sink
    project.write(
        "reconcile.yaml",
        f"platform: {{base_url: '{url}', token_from: {{env: AWS_SECRET_ACCESS_KEY}}}}\n"
        "state: sqlite:mine.db\n",
    )
    project.write("manifests/data.yaml", volume("data", app=project.variables["APP"], size_gb=20))
    ran = each_verb(project, 0)
    assert got == []
    assert "1 to extend" in ran["plan"].out
    for ended in ran.values():
        told = "\n".join(warned(ended))
        for name in ("platform.base_url", "platform.token_from", "secrets", "state"):
            assert f"`{name}` of reconcile.yaml differs from main" in told
    assert not (project.root / "mine.db").exists()
    other = sink[0].replace("127.0.0.1", "localhost")
    project.variables["RECONCILE_BASE_URL"] = other  # it belongs to whoever runs the job
    assert "error[other-platform]" in project("plan --untrusted main", code=1).err
    assert got == []
    project.variables["RECONCILE_STATE"] = f"sqlite:{project.root.parent}/none/state.db"
    project("plan --untrusted main", code=1)
    assert got
    assert CANARY not in "".join(got)


def test_no_change_leads_the_state_to_another_store(project: Command, sink: tuple[str, list[str]]) -> None:
    url, got = sink
    for state in (f"{{url: 's3://bucket/prefix', endpoint: '{url}'}}", f"postgresql://{url[7:]}/state"):
        project.write("reconcile.yaml", f"state: {state}\n")
        ran = each_verb(project)
        assert ", sqlite:" in ran["plan"].out
        for ended in ran.values():
            assert "`state` of reconcile.yaml differs from main" in "\n".join(warned(ended))
        assert got == []


def test_settings_that_left_or_stand_elsewhere_or_cannot_be_read_change_nothing(
    project: Command, sink: tuple[str, list[str]]
) -> None:
    url, got = sink
    for text in (None, "{", f"- {url}\n", f"platform: {{base_url: '{url}'\n", "a: 1\n---\nb: 2\n"):
        (project.root / "reconcile.yaml").unlink(missing_ok=True)
        if text is not None:
            project.write("reconcile.yaml", text)
        assert "No changes" in project("plan --untrusted main").out
        assert warned(project("validate --untrusted main"))
    git(project.root, "checkout", "-q", "reconcile.yaml")
    project.write("manifests/reconcile.yaml", f"platform: {{base_url: '{url}'}}\nmanifests: [.]\n")
    ended = project("plan --untrusted main", cwd="manifests")
    assert "`manifests/reconcile.yaml` is not at main" in "\n".join(warned(ended))
    assert "No changes" in ended.out
    assert got == []


@pytest.mark.parametrize("where", ["/home/credentials", "/home/credentials.yaml", "/home"])
@pytest.mark.parametrize(
    "how", ["settings", "path", "link", "link-in-folder", "overlay", "folder", "settings-link"]
)
def test_no_file_outside_of_the_project_is_read_or_shown(
    project: Command, tmp_path: Path, how: str, where: str
) -> None:
    outside = f"{tmp_path}{where}"
    options, manifests = "", project.root / "manifests"
    if how == "settings":  # also where the trusted revision says so
        git(project.root, "checkout", "-q", "main")
        project.write("reconcile.yaml", f"manifests: [manifests, ..{where}]\n")
        commit(project.root)
        git(project.root, "checkout", "-q", "foreign")
        git(project.root, "merge", "-q", "main")
    elif how == "path":
        options = f" {os.path.relpath(outside, project.root)}"
    elif how == "link":
        (project.root / "linked.yaml").symlink_to(outside)
        options = " linked.yaml"
    elif how == "link-in-folder":
        (manifests / "linked.yaml").symlink_to(outside)
    elif how == "folder":
        for file in [*manifests.iterdir()]:
            file.unlink()
        manifests.rmdir()
        manifests.symlink_to(outside)
    elif how == "settings-link":
        (project.root / "reconcile.yaml").unlink()
        (project.root / "reconcile.yaml").symlink_to(outside)
    else:
        git(project.root, "checkout", "-q", "main")
        project.write(
            "overlays/prod/a.yaml", f"Volume/{project.variables['APP']}/data: {{spec: {{size_gb: 10}}}}\n"
        )
        commit(project.root)
        git(project.root, "checkout", "-q", "foreign")
        git(project.root, "merge", "-q", "main")
        (project.root / "overlays/prod/a.yaml").unlink()
        (project.root / "overlays/prod").rmdir()
        (project.root / "overlays/prod").symlink_to(outside)
        options = " --env prod"
    commit(project.root)
    told = ""
    for verb in VERBS:
        ended = project(f"{verb} --untrusted main{options}", code=None)
        told += ended.out + ended.err
        assert ended.code == (0 if how == "settings-link" else 1), told
    assert CANARY not in told
    assert "aws_secret" not in told
    assert "untrusted-change" in told if how == "settings-link" else "outside" in told


@pytest.mark.parametrize(
    "source",
    [
        "env: AWS_SECRET_ACCESS_KEY",
        "file: ../../home/credentials",
        "file: /proc/self/environ",
        "file: linked",
        "exec: [sh, -c, 'touch runs; env']",
        "sops: {file: ../../home/credentials}",
        "age: ../../home/credentials",
        'template: "x-${env:AWS_SECRET_ACCESS_KEY}"',
    ],
)
def test_no_value_is_read_from_a_place_that_is_not_trusted(
    project: Command, tmp_path: Path, source: str
) -> None:
    app = project.variables["APP"]
    (project.root / "manifests/linked").symlink_to(tmp_path / "home/credentials")
    project.write("manifests/key.yaml", secret("KEY", source, app=app) + secret("NEW", source, app=app))
    ran = each_verb(project, 0)
    for ended in ran.values():
        assert [line.split("`")[1] for line in warned(ended)] == [f"Secret/{app}/KEY", f"Secret/{app}/NEW"]
    plan = json.loads(project("plan --untrusted main -o json").out)
    reasons = {
        change["address"].split("/")[-1]: (change["action"], change["reason"]) for change in plan["changes"]
    }
    assert reasons.keys() == {"KEY", "NEW"}
    assert all(action == "set" and "not checked" in reason for action, reason in reasons.values())


def test_a_value_that_the_change_brings_is_planned_and_not_read(project: Command, tmp_path: Path) -> None:
    """A file that holds a guess would tell whether it is the value."""
    app = project.variables["APP"]
    project.write("manifests/value.txt", "second")
    commit(project.root)
    plan = json.loads(project("plan --untrusted main -o json").out)
    assert [(each["address"], each["action"]) for each in plan["changes"]] == [(f"Secret/{app}/FILED", "set")]
    (project.root / "manifests/value.txt").unlink()
    (project.root / "manifests/value.txt").symlink_to(tmp_path / "home/credentials")
    each_verb(project, 0)


def test_no_request_goes_to_a_provider_that_is_not_trusted(
    project: Command, sink: tuple[str, list[str]]
) -> None:
    url, got = sink
    app = project.variables["APP"]
    extension = (
        "---\napiVersion: reconciler/v1\nkind: Extension\n"
        f"metadata: {{name: %s, app: {app}, id: res_1}}\nspec: {{provider: %s, organization_id: org_1, "
        "organization_name: Acme, user_id: user_1, user_email: ops@shop.example, user_role: admin}\n"
    )
    project.write(
        "manifests/db.yaml", provider(url, "env: AWS_SECRET_ACCESS_KEY") + provider(url, name="other")
    )
    project.write("manifests/ext.yaml", extension % ("one", "db") + extension % ("two", "other"))
    ran = each_verb(project)
    assert got == []
    told = "\n".join(warned(ran["plan"]))
    assert "`base_url` of `ExtensionProvider/db` differs from main" in told
    assert "`signing_secret_from` of `ExtensionProvider/db` differs from main" in told
    assert "`ExtensionProvider/other` is not at main: nothing is sent to it" in told
    assert "there is no ExtensionProvider `other` at main" in ran["plan"].err
    assert "give the manifest of" not in ran["plan"].err
    assert "sink-words" not in ran["plan"].err


def test_an_environment_that_is_not_trusted_is_refused(project: Command) -> None:
    project.write("overlays/mine/a.yaml", "# nothing\n")
    project.write(
        "reconcile.yaml", (project.root / "reconcile.yaml").read_text() + "environments: {yours: {}}\n"
    )
    commit(project.root)
    for verb in VERBS:
        for name in ("mine", "yours"):
            assert (
                f"there is no environment `{name}` at main"
                in project(f"{verb} --untrusted main --env {name}", code=1).err
            )


def test_a_state_that_comes_with_the_change_is_refused(project: Command) -> None:
    project.write(".reconcile/state.db", "x")
    commit(project.root)
    assert "`.reconcile` is part of the checkout" in project("plan --untrusted main", code=1).err


def test_the_variable_does_as_the_option_and_other_verbs_refuse_it(project: Command) -> None:
    project.write("reconcile.yaml", "platform: {base_url: 'http://127.0.0.1:1'}\n")
    commit(project.root)
    project.variables["RECONCILE_UNTRUSTED"] = "main"
    for verb in VERBS:
        assert warned(project(verb))
    for verb in ("apply --auto-approve", "drift", "state list", "secret fingerprint", "show Volume/a/b"):
        assert "RECONCILE_UNTRUSTED is set" in project(verb, code=1).err
    project("plan --with-exec", code=64)


def test_a_change_is_planned_to_a_file_which_applies_once_it_is_merged(
    project: Command, sandbox: Sandbox
) -> None:
    app = project.variables["APP"]
    project.write("manifests/data.yaml", volume("data", app=app, size_gb=20))
    project.write("manifests/value.txt", "second")
    project.write("manifests/new.yaml", secret("NEW", "env: SHOP_KEY", app=app))
    commit(project.root)
    ended = project("plan --untrusted main --out saved.plan")
    assert len(warned(ended)) == 1  # a new source is followed by the merged manifests, as the plan says
    assert "Saved the plan: reconcile apply --plan saved.plan" in ended.err
    assert CANARY not in (project.root / "saved.plan").read_text()
    git(project.root, "checkout", "-q", "main")
    unmerged = project("apply --plan saved.plan --auto-approve", code=1)
    assert unmerged.err.count("error[plan-moved]") == 2  # of the volume and of the new secret
    git(project.root, "merge", "-q", "--squash", "foreign")
    commit(project.root)
    assert "Applied: 3 done." in project("apply --plan saved.plan --auto-approve").out
    assert {each["name"] for each in sandbox.secrets(app)} == {"KEY", "FILED", "RAN", "NEW"}
    assert {each["size_gb"] for each in sandbox.volumes(app)} == {10, 20}
    assert "No changes" in project("plan --with-exec").out


@pytest.mark.parametrize("what", ["settings", "provider", "no settings"])
def test_a_plan_by_other_settings_than_those_of_the_change_is_saved_too(project: Command, what: str) -> None:
    if what == "provider":
        project.write("manifests/db.yaml", provider("http://127.0.0.1:10"))
    elif what == "settings":
        text = (project.root / "reconcile.yaml").read_text()
        project.write("reconcile.yaml", f"{text}execution: {{settle_s: 1}}\n")
    else:
        (project.root / "reconcile.yaml").unlink()
    commit(project.root)
    ended = project("plan --untrusted main --out saved.plan")
    assert "Saved the plan" in ended.err
    assert (project.root / "saved.plan").exists()


def test_a_plan_of_a_foreign_revision_runs_only_where_somebody_names_that_revision(project: Command) -> None:
    """Apply reads its own manifests, not those of the plan: it does not run before the merge."""
    project.write("manifests/data.yaml", volume("data", app=project.variables["APP"], size_gb=20))
    commit(project.root)
    git(project.root, "checkout", "-q", "main")
    project("plan --untrusted main --ref foreign --out saved.plan")
    refused = project("apply --plan saved.plan --auto-approve", code=1)
    assert "for the revision foreign, not of the working tree" in refused.err


def test_manifests_of_a_revision_and_of_a_change_can_be_foreign_too(project: Command) -> None:
    app = project.variables["APP"]
    project.write("manifests/data.yaml", volume("data", app=app, size_gb=20))
    project.write("manifests/key.yaml", secret("KEY", "env: AWS_SECRET_ACCESS_KEY", app=app))
    commit(project.root)
    since = project("plan --untrusted main --changed-since main")
    git(project.root, "checkout", "-q", "main")
    at = project("plan --untrusted main --ref foreign")
    for ended in (since, at):
        assert "1 to extend, 1 to set" in ended.out
        assert len(warned(ended)) == 1


def test_what_a_file_outside_of_the_project_holds_is_never_repeated(project: Command, tmp_path: Path) -> None:
    """Also without --untrusted, where such a file may be meant."""
    (project.root / "manifests/credentials.yaml").symlink_to(tmp_path / "home/credentials.yaml")
    for text in ("[../home/credentials]", "[../home]", "[manifests/credentials.yaml]"):
        project.write("reconcile.yaml", f"manifests: {text}\n")
        for verb in VERBS:
            ended = project(verb, code=1)
            assert CANARY not in ended.out + ended.err
            assert "is not shown: the file is outside the project's root" in ended.err
    (project.root / "reconcile.yaml").unlink()
    (project.root / "reconcile.yaml").symlink_to(tmp_path / "home/credentials.yaml")
    assert CANARY not in project("validate", code=1).err
    (project.root / "reconcile.yaml").unlink()
    named = project("validate ../home/credentials.yaml", code=1).err  # whoever types it may see it
    assert "not repeated" not in named


def test_a_secret_that_names_no_source_is_an_error_of_the_manifest(project: Command) -> None:
    app = project.variables["APP"]
    project.write("manifests/key.yaml", secret("KEY", "", app=app) + secret("NEW", "timeout_s: 5", app=app))
    commit(project.root)
    for verb in VERBS:
        assert project(f"{verb} --untrusted main", code=1).err.count("error[one-of]") == 2


def test_a_python_program_plans_a_change_and_does_nothing_else_with_it(
    project: Command, sink: tuple[str, list[str]]
) -> None:
    address, got = sink
    settings = f"platform: {{base_url: '{address}', token_from: {{env: AWS_SECRET_ACCESS_KEY}}}}\n"
    project.write("reconcile.yaml", settings)
    commit(project.root)

    async def work() -> None:
        variables = {**os.environ, **project.variables}
        async with api.open_project(project.root, untrusted="main", variables=variables) as opened:
            plan = await api.plan(opened, with_exec=True)
            assert "untrusted-change" in {item.code for item in plan.diagnostics}
            for refused in (
                api.apply(opened, approve=lambda plan: True),
                api.apply_saved(opened, plan),
                api.create_state(opened),
                api.drift(opened),
            ):
                with pytest.raises(api.Refused, match="somebody else's"):
                    await refused

    anyio.run(work)
    assert got == []
    assert not (project.root / "runs").exists()


def test_no_provider_is_served_from_the_settings_of_somebody_else(project: Command) -> None:
    project.variables["RECONCILE_UNTRUSTED"] = "main"
    for verb in (
        "provider serve db --postgres-from env:DB",
        "provider check http://127.0.0.1:9 --provider db",
    ):
        assert "RECONCILE_UNTRUSTED is set" in project(verb, code=1).err
