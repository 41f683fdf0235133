"""Situations of restore drills: the page's manifests were applied, and a drill ran or did not."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from reconciler.core.diagnostics import Diagnostic
from reconciler.core.errors import Refused
from reconciler.drift.find import find_drift
from reconciler.drills.results import Result, remember_result
from reconciler.manifests.load import load
from reconciler.planning.declared import Desired
from reconciler.project.apply import apply
from tests.execution.stage import START, Stage
from tests.explain.projects import Act
from tests.kinds.case import MANIFEST


def after(result: Result, days: int = 0, *, removed: bool = False) -> Act:
    """What drift says so many days after `result`; where the manifests are `removed`, what an apply says."""

    def act(manifest: str, folder: Path) -> Sequence[Diagnostic]:
        (folder / MANIFEST).write_text(manifest, encoding="utf-8")

        async def work() -> Sequence[Diagnostic]:
            stage = Stage(folder)
            try:
                found = load([str(folder / MANIFEST)], root=folder)
                await stage.apply(manifest.partition("---\n")[0])
                (drill,), (volume,) = found.policies, found.resources
                actor = stage.project().actor()
                record = await stage.record()
                known = replace(result, id=record.id)
                await remember_result(stage.store, actor, drill, volume.address, known)
                await stage.time.sleep(days * 86400)
                desired = Desired(found.resources, policies=found.policies)
                if not removed:
                    return (await find_drift(stage.project(), desired)).plan.diagnostics
                gone, deletes = Desired(()), [str(volume.address)]
                with pytest.raises(Refused) as refused:
                    await apply(stage.project(), gone, approve=lambda plan: True, approved_deletes=deletes)
                return refused.value.diagnostics
            finally:
                await stage.close()

        return anyio.run(work)

    return act


def result(why: str = "", recovery_s: float = 720.0) -> Result:
    return Result(START, not why, why, copy="vs_1", recovery_s=recovery_s, lost_s=600.0)


ACTS: dict[str, Act] = {
    "drill-failed": after(result("size: failed: 5 GB of 10 GB")),
    "drill-overdue": after(result(), days=9),
    "recovery-slower": after(result(recovery_s=3000.0)),
    "not-recoverable": after(result("size: failed: 5 GB of 10 GB"), removed=True),
}
