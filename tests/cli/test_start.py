"""What a short command costs is what it imports, and what the interpreter does at its end."""

import subprocess
import sys
from textwrap import dedent

from tests.cli.harness import PATIENCE_S, Project, volume

# What no short command needs, and what only some plans do.
NEVER = {
    "rich",
    "structlog",
    "deepdiff",
    "jinja2",
    "starlette",
    "uvicorn",
    "multiprocessing",
    "reconciler.sandbox",
}
TALKS = {
    "anyio",
    "asyncio",
    "httpx",
    "httpcore",
    "ssl",
    "sqlite3",
    "reconciler.state",
    "reconciler.execution",
    "reconciler.services.client",
}
ACTS = {"reconciler.execution.executor", "reconciler.project.apply", "reconciler.project.run"}
APPROVES = {"reconciler.approvals.judging", "reconciler.approvals.ssh"}
REHEARSES = {"reconciler.rehearsal"}
MOVES_STATES = {"reconciler.project.copies"}

# Runs as `reconcile` does, and tells at the very end what it was asked for.
ASKED = """
    import atexit, gc, sys
    looks = []
    gc.callbacks.append(lambda phase, info: looks.append(phase))
    atexit.register(lambda: print({asked}, file=sys.stderr))
    from reconciler.cli.main import main
    looks.clear()
    main()
"""


def at_the_end(project: Project, asked: str, *arguments: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", dedent(ASKED.format(asked=asked)), *arguments],
        cwd=project.root,
        env=project.env,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stderr.splitlines()[-1]


def imported(project: Project, *arguments: str) -> set[str]:
    found = set(at_the_end(project, "*sys.modules", *arguments).split())
    assert "reconciler.project.desired" in found
    return found


def test_help_imports_nothing_of_what_verbs_need(project: Project) -> None:
    found = set(at_the_end(project, "*sys.modules", "--help").split())
    ours = {name for name in found if name.startswith("reconciler.")}
    assert ours == {f"reconciler.cli{name}" for name in ("", ".main", ".group", ".signals", ".streams")}
    assert not ({"pydantic", "yaml"} | NEVER | TALKS) & found


def test_validate_imports_nothing_that_talks_or_stores(project: Project, app: str) -> None:
    project.write(volume(app))
    found = imported(project, "validate")
    assert not (NEVER | TALKS | ACTS | APPROVES | REHEARSES | MOVES_STATES) & found


def test_a_plan_without_rules_imports_nothing_that_acts_approves_or_rehearses(
    project: Project, app: str
) -> None:
    project.write(volume(app))
    found = imported(project, "plan")
    assert not (NEVER | ACTS | APPROVES | REHEARSES | MOVES_STATES) & found


def test_a_short_command_never_looks_for_garbage(project: Project, app: str) -> None:
    """Neither on its way nor at its end: what is frozen is not looked through."""
    project.write(volume(app))
    assert at_the_end(project, "len(looks)", "plan") == "0"
    assert int(at_the_end(project, "gc.get_freeze_count()", "plan")) > 10_000


# Prints the models that importing what `plan` needs has built.
BUILT = """
    from pydantic import BaseModel
    import reconciler.cli.plan
    from reconciler.policies import find_manifest_kinds
    find_manifest_kinds()
    models = [BaseModel]
    for model in models:
        models += model.__subclasses__()
    print(*(m.__name__ for m in models if m.__pydantic_complete__ and m.model_fields))
"""


def test_models_are_built_when_they_are_first_used() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", dedent(BUILT)], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert ran.stdout.split() == [], ran.stderr
