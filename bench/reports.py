"""One report of many changes: `python -m bench.reports FORMAT KIND SIZE` prints what it takes as JSON.

KIND is `plan` or `drift`. CPU seconds and MiB are those of the rendering alone, above what the plan takes:
from the import of the format to the bytes of a file.
"""

import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from reconciler.core.context import Context
from reconciler.core.diagnostics import Span, warning
from reconciler.core.model import Action, Address, Change, Effect, FieldChange, Impact
from reconciler.core.steps import Call, Plan, Step
from reconciler.reports.report import DriftReport, PlanReport, Report

APPS = 1_000


def report(kind: str, size: int) -> Report:
    """Extends of volumes, a tenth of which restart a machine; a warning for every tenth."""
    addresses = [Address("Volume", f"data-{at}", f"app-{at % APPS:04}") for at in range(size)]
    changes = tuple(_change(address, at) for at, address in enumerate(addresses))
    steps = tuple(_step(change) for change in changes) if kind == "plan" else ()
    declared = {each: Span(f"manifests/{each.app}.yaml", 4, 9, 15) for each in addresses}
    told = tuple(
        warning("object-missing", f"`{each}` was not found", declared[each], help="look on the platform")
        for each in addresses[::10]
    )
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    about = Context(
        "prod", "https://platform.example", "sqlite:state.db", "lineage", "3f2a9c1d", False, "1", at
    )
    plan = Plan("plan", about, changes, steps, (), (), (), told)
    if kind == "drift":
        return DriftReport(plan=plan, diagnostics=told, declared=declared)
    return PlanReport(plan=plan, diagnostics=told, declared=declared)


def _change(address: Address, at: int) -> Change:
    fields = (
        FieldChange("size_gb", 10, 20, Effect.GROW),
        FieldChange("snapshot_retention", 7, 14, Effect.IN_PLACE),
    )
    impact = Impact.RESTART if at % 10 == 0 else Impact.ONLINE
    reason = "the attached machine may have to restart to use the added space"
    return Change(address, Action.EXTEND, fields, impact, reason, f"vol_{at:016x}", also=(Action.UPDATE,))


def _step(change: Change) -> Step:
    path = f"/v1/apps/{change.address.app}/volumes/{change.id}/extend"
    return Step(f"{change.address}#extend", change.address, Call("PUT", path, {"size_gb": 20}))


def main() -> None:
    name, kind, size = sys.argv[1:]
    given = report(kind, int(size))
    before = _peak_mib()
    started = time.process_time()
    from reconciler.reports.formats import find_formats

    written = find_formats()[name].render(given).encode()
    seconds = time.process_time() - started
    print(json.dumps({"seconds": seconds, "mib": _peak_mib() - before, "bytes": len(written)}))


def _peak_mib() -> float:
    """Of this program alone: what getrusage tells begins with the peak of the process that started it."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split(maxsplit=1)[0]) / 1024


if __name__ == "__main__":
    main()
