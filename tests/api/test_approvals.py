"""A program gives the approvals that the rules of its project ask for."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.api import (
    Plan,
    ReconcilerError,
    Refused,
    SavedPlan,
    apply,
    apply_saved,
    dump_plan,
    load_saved,
    open_project,
    plan,
)
from reconciler.planning.digest import plan_digest
from reconciler.rehearsal.results import Rehearsal
from tests.api.test_program import VARIABLES, project, sandbox
from tests.approvals.people import SAID, Person, make
from tests.cli.harness import Sandbox
from tests.inprocess import volume
from tests.revisions.repository import ISOLATED, commit, git

__all__ = ["sandbox"]  # fixtures
RULE = "approvals: {rules: [{when: {action: delete}, valid: 2h}]}\n"
GIT = {**VARIABLES, **ISOLATED}
REHEARSED = Rehearsal((), 0, ())


@pytest.fixture
def ana(tmp_path: Path) -> Person:
    return make(tmp_path, "ana@example.com")


@pytest.fixture
def root(tmp_path: Path, sandbox: Sandbox, ana: Person, app: str) -> Path:
    """A project whose change deletes a volume, and drops the rule that asks for an approval of that."""
    kept = volume(app=app, name="other")
    deleted = volume(app=app) + "lifecycle: {deletion: delete}\n"
    root = project(tmp_path / "project", sandbox, f"{deleted}---\n{kept}", RULE)
    git(root, "init", "-q", "-b", "main")
    (root / ".gitignore").write_text(".reconcile/\n")
    (root / "allowed_signers").write_text(ana.line())
    commit(root)

    async def program() -> None:
        async with open_project(root, variables=GIT) as opened:
            await apply(opened, approve=lambda shown: True)

    asyncio.run(program())
    (root / "manifests/all.yaml").write_text(kept)
    (root / "reconcile.yaml").write_text((root / "reconcile.yaml").read_text().replace(RULE, ""))
    commit(root)
    return root


@pytest.fixture
def app(sandbox: Sandbox, request: pytest.FixtureRequest) -> str:
    return sandbox.app(f"app-{len(request.node.name)}")


def approval(ana: Person, of: Plan, file: Path, **said: str) -> Path:
    now = datetime.now(UTC).replace(microsecond=0)
    about = replace(
        SAID,
        plan=plan_digest(of),
        rehearsal="",
        lineage=of.context.lineage or "",
        at=now,
        expires=now + timedelta(hours=2),
    )
    file.write_bytes(ana.approves(about, **said).to_bytes())
    return file


async def test_a_program_gives_approvals_as_files(
    root: Path, ana: Person, sandbox: Sandbox, app: str
) -> None:
    async with open_project(root, variables=GIT, base="HEAD^") as opened:
        reviewed = await plan(opened)
        with pytest.raises(Refused) as refused:
            await apply_saved(opened, reviewed, approved_deletes=[f"Volume/{app}/data"])
        assert [each.code for each in refused.value.diagnostics] == ["rules-loosened", "approval-needed"]
        saved = load_saved(dump_plan(reviewed))
        assert (saved.plan, saved.rehearsal) == (reviewed, None)
        file = approval(ana, reviewed, root / "ana.approval")
        applied = await apply_saved(opened, saved, approvals=[str(file)])
        assert [result.outcome for result in applied.results] == ["done", "done"]
        again = await apply_saved(opened, saved, approvals=[file])
        assert not again.results
        assert "it was used already" in str(again.plan.diagnostics)
    assert "DELETE" in {method for method, _ in sandbox.mutations_of(app)}


async def test_an_approval_of_a_rehearsed_plan_is_of_both(root: Path, ana: Person) -> None:
    async with open_project(root, variables=GIT, base="HEAD^") as opened:
        saved = load_saved(dump_plan(await plan(opened), REHEARSED))
        assert isinstance(saved, SavedPlan)
        file = approval(ana, saved.plan, root / "ana.approval", rehearsal=REHEARSED.digest)
        with pytest.raises(Refused) as refused:
            await apply_saved(opened, saved.plan, approvals=[file])
        assert "approval-dead" in [each.code for each in refused.value.diagnostics]
        applied = await apply_saved(opened, saved, approvals=[file])
        assert {result.outcome for result in applied.results} == {"done"}


async def test_without_a_base_the_state_knows_the_rules_and_who_signs(
    root: Path, ana: Person, app: str
) -> None:
    async with open_project(root, variables=GIT) as opened:
        reviewed = await plan(opened)
        file = approval(ana, reviewed, root / "ana.approval")
        with pytest.raises(Refused):
            await apply_saved(opened, reviewed, approved_deletes=[f"Volume/{app}/data"])
        with pytest.raises(ReconcilerError, match="is not an approval"):
            await apply_saved(opened, reviewed, approvals=[root / "allowed_signers"])
        with pytest.raises(TypeError, match="a collection of files"):
            await apply_saved(opened, reviewed, approvals=str(file))
        applied = await apply_saved(opened, reviewed, approvals=[file])
        assert {result.outcome for result in applied.results} == {"done"}
