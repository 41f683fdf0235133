"""The reconciler in a Python program: values come back, nothing is printed, and no signal is taken."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

import pytest

from reconciler.api import (
    ManifestError,
    Misused,
    ReconcilerError,
    Refused,
    apply,
    apply_saved,
    create_state,
    doctor,
    drift,
    dump_plan,
    load_saved,
    open_project,
    plan,
)
from tests.cli.harness import TOKEN, Sandbox, serving
from tests.inprocess import secret, volume
from tests.state.doubles import make_state


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with serving("--clock", "x600", "--profile", "extended") as sandbox:
        yield sandbox


def project(
    root: Path, sandbox: Sandbox, manifests: str, settings: str = "", *, with_state: bool = True
) -> Path:
    """A project in `root` that talks to `sandbox`."""
    (root / "manifests").mkdir(parents=True)
    (root / "manifests/all.yaml").write_text(manifests, encoding="utf-8")
    (root / "reconcile.yaml").write_text(f"platform: {{base_url: '{sandbox.url}'}}\n{settings}")
    if with_state:
        with ThreadPoolExecutor(1) as thread:  # in this one the test's event loop may run
            thread.submit(make_state, root).result()
    return root


VARIABLES = {"RECONCILE_TOKEN": TOKEN, "PATH": os.environ["PATH"]}


async def test_a_program_plans_applies_and_finds_drift(
    tmp_path: Path, sandbox: Sandbox, capfd: pytest.CaptureFixture[str]
) -> None:
    app = sandbox.app("first")
    root = project(tmp_path, sandbox, volume(app=app))
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    async with open_project(root, variables=VARIABLES) as opened:
        proposed = await plan(opened)
        assert [str(change.address) for change in proposed.changes] == ["Volume/first/data"]
        assert sandbox.volumes(app) == []
        applied = await apply(opened, approve=lambda shown: len(shown.steps) == 1)
        assert [result.outcome for result in applied.results] == ["done"]
        assert (await drift(opened)).plan.changes == ()
        sandbox.edit_volume(sandbox.volume(app)["id"], size_gb=20)
        (moved,) = (await drift(opened)).plan.changes
        assert [(field.path, field.before, field.after) for field in moved.fields] == [("size_gb", 10, 20)]
    assert {number: signal.getsignal(number) for number in handlers} == handlers
    assert capfd.readouterr() == ("", "")


async def test_two_projects_are_open_in_one_event_loop(tmp_path: Path, sandbox: Sandbox) -> None:
    apps = [sandbox.app("left"), sandbox.app("right")]
    roots = [project(tmp_path / app, sandbox, volume(app=app)) for app in apps]

    async with (
        open_project(roots[0], variables=VARIABLES) as left,
        open_project(roots[1], variables=VARIABLES) as right,
    ):
        both = await asyncio.gather(*(apply(each, approve=lambda shown: True) for each in (left, right)))
        assert [[result.outcome for result in each.results] for each in both] == [["done"], ["done"]]
        again = await asyncio.gather(plan(left), plan(right))
        assert [each.steps for each in again] == [(), ()]
        assert again[0].context.lineage != again[1].context.lineage
    assert [len(sandbox.volumes(app)) for app in apps] == [1, 1]


async def test_a_reviewed_plan_is_carried_out_and_only_while_it_is_true(
    tmp_path: Path, sandbox: Sandbox
) -> None:
    app = sandbox.app("saved")
    root = project(tmp_path, sandbox, volume(app=app), with_state=False)
    file = root / "manifests/all.yaml"

    async with open_project(root, variables=VARIABLES) as opened:
        assert await create_state(opened)
        assert not await create_state(opened)
        await apply(opened, approve=lambda shown: True)
    file.write_text(volume(app=app, size_gb=15))
    async with open_project(root, variables=VARIABLES) as opened:
        reviewed = load_saved(dump_plan(await plan(opened)))
        applied = await apply_saved(opened, reviewed)
        assert [result.outcome for result in applied.results] == ["done"]
        assert (await apply_saved(opened, reviewed)).results == ()
    file.write_text(volume(app=app, size_gb=30))
    async with open_project(root, variables=VARIABLES) as opened:
        stale = await plan(opened)
        sandbox.edit_volume(sandbox.volume(app)["id"], size_gb=20)
        with pytest.raises(Refused) as refused:
            await apply_saved(opened, stale)
        assert [each.code for each in refused.value.diagnostics] == ["plan-moved"]
    assert sandbox.volume(app)["size_gb"] == 20


async def test_what_nobody_approves_is_not_sent(tmp_path: Path, sandbox: Sandbox) -> None:
    app = sandbox.app("asked")
    root = project(tmp_path, sandbox, volume(app=app))

    async with open_project(root, variables=VARIABLES) as opened:
        assert (await apply(opened, approve=lambda shown: False)).declined
    async with open_project(root, variables=VARIABLES, read_only=True) as opened:
        applied = await apply(opened, approve=lambda shown: True)
        assert [result.outcome for result in applied.results] == ["failed"]
    assert sandbox.volumes(app) == []


def test_a_program_that_gives_a_secret_runs_without_our_signal_handlers(
    tmp_path: Path, sandbox: Sandbox
) -> None:
    """The program waits until it was asked for; meanwhile the handlers are looked at."""
    app = sandbox.app("exec")
    seen: list[object] = []
    root = project(
        tmp_path,
        sandbox,
        secret("PASSWORD", "exec: [sh, -c, 'cat go && touch ran']", app),
        "secrets: {exec: [sh]}",
    )
    os.mkfifo(root / "go")

    def answer() -> None:
        with (root / "go").open("w") as pipe:  # opens once the program reads
            seen.append(signal.getsignal(signal.SIGINT))
            pipe.write("hunter2")

    async def program() -> None:
        async with open_project(root, variables=VARIABLES) as opened:
            answering = asyncio.get_running_loop().run_in_executor(None, answer)
            proposed = await plan(opened, with_exec=True)
            # If the program did not run, `answer` would wait for ever.
            os.close(os.open(root / "go", os.O_RDONLY | os.O_NONBLOCK))
            await answering
            assert (root / "ran").exists()
            assert "hunter2" not in repr(proposed)
            assert seen == [signal.getsignal(signal.SIGINT)]

    asyncio.run(program())


def test_mistakes_are_raised_with_all_their_diagnostics(tmp_path: Path, sandbox: Sandbox) -> None:
    root = project(tmp_path, sandbox, volume(size_gb=0) + volume(name="-", app="other"))

    async def opened(env: str = "") -> None:
        async with open_project(root, env=env, variables=VARIABLES):
            raise AssertionError("it must not open")

    with pytest.raises(ManifestError) as refused:
        asyncio.run(opened())
    assert {each.span.line for each in refused.value.diagnostics if each.span} == {5, 9}
    with pytest.raises(ReconcilerError, match="there is no environment `nope`"):
        asyncio.run(opened(env="nope"))


def run_alone(script: str, root: Path, **variables: str) -> str:
    """What a program of its own prints; its exit code must be 0."""
    ran = subprocess.run(
        [sys.executable, "-c", dedent(script)],
        cwd=root,
        env={**VARIABLES, **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_a_program_works_where_click_cannot_be_imported(tmp_path: Path, sandbox: Sandbox) -> None:
    app = sandbox.app("clickless")
    root = project(tmp_path, sandbox, volume(app=app))
    script = """
        import sys
        sys.modules["click"] = sys.modules["rich"] = None  # any import of them fails

        import asyncio
        from reconciler.api import apply, drift, open_project, plan

        async def main():
            async with open_project() as project:
                await plan(project)
                applied = await apply(project, approve=lambda plan: True)
                assert [result.outcome for result in applied.results] == ["done"]
                assert not (await drift(project)).plan.changes

        asyncio.run(main())
        assert not [name for name in sys.modules if name.startswith("reconciler.cli")]
        assert sys.modules["click"] is None
        """
    assert run_alone(script, root) == ""


def test_importing_the_package_alone_imports_nothing_of_it(tmp_path: Path) -> None:
    script = """
        import sys
        before = set(sys.modules)
        import reconciler
        print(sorted(set(sys.modules) - before))
        """
    assert run_alone(script, tmp_path) == "['reconciler']\n"


async def test_an_answer_that_is_not_true_or_false_approves_nothing(tmp_path: Path, sandbox: Sandbox) -> None:
    app = sandbox.app("asked")
    root = project(tmp_path, sandbox, volume(app=app))

    async with open_project(root, variables=VARIABLES) as opened:
        with pytest.raises(TypeError, match="must answer True or False"):
            await apply(opened, approve=lambda shown: [shown])  # type: ignore[arg-type, return-value]
        with pytest.raises(TypeError, match="a collection of addresses"):
            await apply(opened, approve=lambda shown: True, approved_deletes="Volume/asked/database")
    assert sandbox.volumes(app) == []


async def test_a_call_that_is_not_sent_leaves_no_question(tmp_path: Path, sandbox: Sandbox) -> None:
    app = sandbox.app("looking")
    root = project(tmp_path, sandbox, volume(app=app))

    async with open_project(root, variables=VARIABLES, read_only=True) as opened:
        applied = await apply(opened, approve=lambda shown: True)
        assert [result.outcome for result in applied.results] == ["failed"]
        assert not [each.code for each in (await plan(opened)).diagnostics]
    assert sandbox.volumes(app) == []


def test_a_program_asks_whether_all_is_well(tmp_path: Path, sandbox: Sandbox) -> None:
    root = project(tmp_path, sandbox, volume(app=sandbox.app("examined")))
    assert asyncio.run(doctor(root, variables=VARIABLES)).is_well
    found = asyncio.run(doctor(root, variables={"RECONCILE_TOKEN": "another"}))
    assert [each.name for each in found.checks if each.outcome == "problem"] == ["token"]


async def test_a_program_plans_applies_and_compares_single_resources(
    tmp_path: Path, sandbox: Sandbox
) -> None:
    app = sandbox.app("single")
    root = project(tmp_path, sandbox, volume("data", app=app) + volume("logs", app=app))
    data = [f"Volume/{app}/data"]

    async with open_project(root, variables=VARIABLES) as opened:
        proposed = await plan(opened, targets=data)
        assert ([str(change.address) for change in proposed.changes], proposed.outside) == (data, 1)
        with pytest.raises(Misused, match="a target does not exist"):
            await plan(opened, targets=[f"Volume/{app}/dat"])
        with pytest.raises(TypeError, match="a collection of addresses"):
            await plan(opened, targets=data[0])
        await apply(opened, approve=lambda plan: True, targets=data)
        assert (await drift(opened, targets=data)).plan.outside == 1
    assert [each["name"] for each in sandbox.volumes(app)] == ["data"]
