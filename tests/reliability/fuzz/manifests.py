"""What must hold for whatever stands in manifests and settings: loaded, and planned when that went well."""

import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from reconciler.core.diagnostics import Diagnostic, has_errors
from reconciler.core.errors import ManifestError, ReconcilerError
from reconciler.manifests.files import SETTINGS_FILE
from reconciler.manifests.load import Loaded, load
from reconciler.planning.declared import Desired
from reconciler.planning.saved import dump_plan, load_saved
from reconciler.project.plan import make_plan
from reconciler.project.project import Project
from reconciler.project.settings import find_settings
from reconciler.reports.diagnostics import render
from reconciler.reports.formats.text import render_plan
from reconciler.secrets.sources import Sources
from reconciler.services.platform import platform_client
from reconciler.services.transport import HttpTransport
from reconciler.state import open_store
from tests.documents import diagnostic_documents, plan_document
from tests.execution.stage import BASE_URL, TOKEN, Stage
from tests.reliability.fuzz.mutation import LITERAL, ROOT, Files, make_files
from tests.reliability.responses.rules import it_can_be_written

SECRET_VALUE = "kept-in-memory-9c1f"  # of the environment variable that secrets name

MACHINE = "5e1ec7edca5e42"  # which the examples suspend


@dataclass
class Ground:
    """A converged project that plans are made in. Nothing may change it."""

    stage: Stage
    project: Project
    folder: Path
    counts: Counter[str]

    async def close(self) -> None:
        await self.stage.close()


async def prepare(folder: Path) -> Ground:
    """Apply the repository's examples in `folder`, an empty directory."""
    stage = Stage(folder)
    example = folder / "example-api-key.txt"
    example.write_text(f"{SECRET_VALUE}\n", encoding="utf-8")
    stage.call("POST", "/_sandbox/machines", {"app": "shop", "id": MACHINE})
    applied = await stage.apply("---\n".join(file.read_text("utf-8") for file in _examples()))
    assert all(result.outcome == "done" for result in applied.results), applied.results
    stage.line.sent.clear()
    platform = platform_client(
        stage.line, BASE_URL, lambda: TOKEN, stage.time, jitter=lambda: 1.0, read_only=True
    )
    project = replace(stage.project(), platform=platform, sources=Sources(folder, {"PASSWORD": SECRET_VALUE}))
    return Ground(stage, project, folder, Counter())


def _examples() -> list[Path]:
    return sorted(ROOT.glob("manifests/examples/*.yaml"))


async def check_seed(ground: Ground, seed: int) -> list[str]:
    return await check(ground, make_files(Random(seed)))


async def check(ground: Ground, files: Files) -> list[str]:
    """What is wrong with how the program takes `files`: one sentence each. A traceback raises."""
    if files.suspect == "settings":
        return list(_settings_problems(ground, files))
    return [problem async for problem in _manifest_problems(ground, files)]


# --- settings ---


def _settings_problems(ground: Ground, files: Files) -> Iterator[str]:
    folder = ground.folder / "settings"
    folder.mkdir(exist_ok=True)
    (content,) = files.contents
    (folder / SETTINGS_FILE).write_bytes(content)
    told = ""
    try:
        found = find_settings(folder, {})
        settings = found.settings
        open_store(settings.state_url, root=found.root, clock=ground.stage.time)
        if settings.platform.base_url is not None:
            HttpTransport(settings.platform.base_url)
    except ManifestError as failure:
        ground.counts["settings refused"] += 1
        told = failure.message + _told(failure.diagnostics, {SETTINGS_FILE: content})
        yield from _diagnostic_problems(failure.diagnostics, {SETTINGS_FILE: content})
        if not failure.diagnostics:
            yield "the settings are refused without a reason"
    except ReconcilerError as failure:
        ground.counts["settings refused"] += 1
        told = failure.message + failure.help
    else:
        ground.counts["settings read"] += 1
    if files.literal and LITERAL in told:
        yield "a literal in the settings is quoted"


# --- manifests ---


def loaded(folder: Path, files: Files) -> tuple[Loaded, list[str]]:
    """Load `files` from below `folder`, and say what is wrong with the diagnostics."""
    (folder / "manifests").mkdir(exist_ok=True)
    named = _named(files)
    for name, content in named.items():
        (folder / name).write_bytes(content)
    found = load([str(folder / name) for name in named], root=folder)
    problems = list(_diagnostic_problems(found.diagnostics, named))
    if files.literal and has_errors(found.diagnostics) and LITERAL in _told(found.diagnostics, named):
        problems.append("a literal in a Secret manifest is quoted by a diagnostic")
    return found, problems


def _named(files: Files) -> dict[str, bytes]:
    return {f"manifests/{number}.yaml": content for number, content in enumerate(files.contents)}


async def _manifest_problems(ground: Ground, files: Files) -> AsyncIterator[str]:
    named = _named(files)
    found, problems = loaded(ground.folder, files)
    for problem in problems:
        yield problem
    if has_errors(found.diagnostics):
        ground.counts["manifests refused"] += 1
        return
    told = _told(found.diagnostics, named)
    try:
        plan = await make_plan(ground.project, Desired(found.resources, found.diagnostics))
    except ReconcilerError as failure:
        ground.counts["not planned"] += 1
        told += failure.message + failure.help
    else:
        ground.counts["planned with errors" if has_errors(plan.diagnostics) else "planned"] += 1
        told += _told(plan.diagnostics, named) + render_plan(plan) + _json(plan_document(plan))
        for problem in _diagnostic_problems(plan.diagnostics, named):
            yield problem
        if not has_errors(plan.diagnostics):
            saved = dump_plan(plan)
            told += saved.decode()
            if dump_plan(load_saved(saved).plan) != saved:
                yield "a saved plan is another one when it is read again"
    for problem in it_can_be_written(told):
        yield problem
    if SECRET_VALUE in told:
        yield "the value of a secret is shown"
    sent = {method for method, _ in ground.stage.line.sent}
    ground.stage.line.sent.clear()
    if not sent <= {"GET"}:
        yield f"planning sent {sorted(sent)}"


def _told(diagnostics: Sequence[Diagnostic], named: dict[str, bytes]) -> str:
    def read_line(file: str, line: int) -> str | None:
        lines = lines_of(named.get(file, b""))
        return lines[line - 1] if 0 < line <= len(lines) else None

    return render(diagnostics, read_line) + _json(diagnostic_documents(diagnostics))


def _json(document: object) -> str:
    return json.dumps(document, ensure_ascii=False, default=str)


def _diagnostic_problems(diagnostics: Sequence[Diagnostic], named: dict[str, bytes]) -> Iterator[str]:
    """Diagnostics that point nowhere."""
    for item in diagnostics:
        if item.span is None:
            continue
        file, line, column, end_column, _ = item.span
        if file not in named:
            yield f"{item.code} points into {file}, which was not read"
            continue
        lines = lines_of(named[file])
        if not 1 <= line <= len(lines):
            yield f"{item.code} points at line {line} of {len(lines)}"
        elif (
            not 1 <= column <= len(lines[line - 1]) + 1
            or not column <= end_column <= len(lines[line - 1]) + 2
        ):
            yield f"{item.code} points at {line}:{column}-{end_column} of {len(lines[line - 1])} characters"


def lines_of(content: bytes) -> list[str]:
    """As editors count them; beyond the last line break stands one more, which may be empty."""
    return re.split("\r\n|\r|\n", content.decode("utf-8-sig", errors="replace"))
