"""Guardrails over many changes: `python -m bench.judging SIZE RULES` prints what one judgement takes.

One change in ten is selected by the filters of all rules. Microseconds of CPU for each rule and selected
change: reading values, evaluating, and the nine in ten that the filters pass over.
"""

import json
import sys
import time
from datetime import UTC, datetime

from msgspec.structs import replace

from bench.reports import report
from reconciler.core.model import Action, Address, Lifecycle, Resource, StateRecord
from reconciler.guardrails.limit import Limit
from reconciler.guardrails.rules import judge_rules
from reconciler.kinds import find_kinds


def main() -> None:
    size, count = int(sys.argv[1]), int(sys.argv[2])
    plan = report("plan", size).plan  # type: ignore[attr-defined]  # a PlanReport
    changes = [
        change if at % 10 == 0 else replace(change, action=Action.UPDATE, also=())
        for at, change in enumerate(plan.changes)
    ]
    plan = replace(plan, changes=tuple(changes))
    spec = find_kinds()["Volume"].Spec.model_validate({"size_gb": 20, "snapshot_retention": 14})
    at = datetime(2026, 1, 31, tzinfo=UTC)
    resources, records = {}, dict[Address, StateRecord]()
    for address in (change.address for change in changes):
        resources[address] = Resource(address, spec, Lifecycle(), "a.yaml", {})
        records[address] = StateRecord(address, "id", address.app or "", {"size_gb": 10}, Lifecycle(), at)
    rules = [
        Limit(
            "Guardrail",
            f"rule-{number}",
            json.dumps(
                {
                    "kinds": ["Volume"],
                    "actions": ["extend"],
                    "when": 'change.app != "lab"',
                    "require": f"change.after.size_gb <= 2 * change.before.size_gb + {number}",
                    "message": "at most double",
                }
            ),
        )
        for number in range(count)
    ]
    judge_rules(rules, replace(plan, changes=plan.changes[:10]), resources, records)  # compiled once a run
    began = time.process_time()
    judged = judge_rules(rules, plan, resources, records)
    seconds = time.process_time() - began
    assert not judged.findings
    print(json.dumps({"us": seconds / (count * size / 10) * 1e6}))


if __name__ == "__main__":
    main()
