"""One case: manifests, records and the platform's answers in; the plan's JSON document out.

A case is a YAML file. Everything but `manifests` and `expect` may be missing:

    manifests: |        # text, so that lines and columns of diagnostics count in it
    verb: plan          # or drift
    now: 2026-06-01T12:00:00Z
    capabilities: [postgres.list]
    env: {DB_PASSWORD: canary}          # secret values: no report may hold them
    files: {token.txt: canary}          # beside the manifests; also secret values
    literals: [canary]                  # parts of the manifests that no report may hold either
    records: {ADDRESS: {id, applied, lifecycle, created_at, source, obligations, inferred, value}}
    new: true           # whether the project began with this state
    intents: [{address, method, path, …}]       # calls without an answer: `execution.intents.Intent`
    at_work: {SCOPE: HOLDER}            # whose processes are applying at this moment
    unclaimed: {ID: ADDRESS}            # what a call for that address made, and no record tracks
    spooled: [SCOPE]                    # where outcomes are that the state did not take
    live: {/v1/PATH: body}              # JSON, or text sent as it stands, or {status: 404, body: …};
                                        # of a provider: its whole address, without the signature
    targets: [ADDRESS]                  # what the plan is about; without it, all
    expect: {changes, steps, owed, diagnostics, summary, outside, reads}    # of drift also unmanaged

`value` in a record stands for the keyed fingerprint of that secret value. Lists in `expect` are
complete and in order; keys that are not mentioned are not compared, except in `body`, `before` and
`after`; `null` also means missing. `mentions: [TEXT]` asks for text anywhere in the item.
Source of all answers: platform API and platform notes.
"""

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import anyio
import yaml

from reconciler.core.diagnostics import Diagnostic, has_errors
from reconciler.core.model import Address, Change, Deletion, Lifecycle, Obligation, Resource, StateRecord
from reconciler.core.reporter import Reporter
from reconciler.core.steps import Plan
from reconciler.drift.find import find_drift
from reconciler.execution.intents import Intent
from reconciler.execution.limits import Limits
from reconciler.manifests.load import Loaded, load
from reconciler.planning.declared import Desired
from reconciler.project.plan import make_plan
from reconciler.project.project import Project
from reconciler.secrets.fingerprint import fingerprint
from reconciler.secrets.sensitive import Sensitive
from reconciler.secrets.sources import Sources
from reconciler.services.client import Client
from reconciler.services.platform import platform_client
from reconciler.services.provider import provider_client
from reconciler.services.transport import Answer
from reconciler.state.store import Event, JournalEntry, State
from tests.documents import diagnostic_documents, drift_document, plan_document
from tests.state.doubles import read_only

MANIFEST = "manifests.yaml"
KEY = bytes(range(32))
NOW = "2026-06-01T12:00:00Z"
LONG_AGO = "2026-01-01T00:00:00Z"
BASE_URL = "https://platform.example"

_KNOWN = {
    *(
        "manifests",
        "verb",
        "now",
        "capabilities",
        "env",
        "files",
        "literals",
        "records",
        "intents",
        "at_work",
        "unclaimed",
        "spooled",
        "live",
        "targets",
        "expect",
    )
}
_WHOLE = ("body", "before", "after")  # compared to the last key


class _Loader(yaml.CSafeLoader):
    """Times stay text, as the platform sends them."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def read_case(path: Path) -> dict[str, Any]:
    """The file's content. Raises ValueError for a key that nothing would look at."""
    case = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    unknown = set(case) - _KNOWN
    if unknown or not case.get("expect"):
        raise ValueError(f"{path}: unknown keys {sorted(unknown)}, or nothing expected")
    return dict(case)


@dataclass(slots=True)
class CaseClock:
    moment: datetime

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return self.moment.timestamp()

    async def sleep(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


@dataclass(slots=True)
class LivePlatform:
    """A transport that answers GETs from `live`; notes what was asked, and what nobody expected."""

    live: Mapping[str, Any]
    now: datetime
    asked: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, deadline_s: float
    ) -> Answer:
        path = url.removeprefix(BASE_URL) if url.startswith(BASE_URL) else url.partition("?")[0]
        self.asked.append(path)
        if method != "GET" or path not in self.live:
            self.unexpected.append(f"{method} {path}")
            return Answer(400, {}, b'{"error": "the case holds no answer to this"}')
        status, content = _answer(self.live[path])
        return Answer(status, {"date": format_datetime(self.now, usegmt=True)}, content)

    async def aclose(self) -> None:
        """Nothing is open."""


def _answer(given: Any) -> tuple[int, bytes]:
    status = 200
    if isinstance(given, dict) and given.keys() == {"status", "body"} and isinstance(given["status"], int):
        status, given = given["status"], given["body"]
    return status, (given if isinstance(given, str) else json.dumps(given)).encode()


@dataclass(frozen=True, slots=True)
class Played:
    """What a case led to. `plan` is None when the manifests already hold errors."""

    plan: Plan | None
    diagnostics: tuple[Diagnostic, ...]
    platform: LivePlatform
    unmanaged: Sequence[Change] | None = None
    without_manifest: int = 0

    def document(self) -> dict[str, Any]:
        reads = {"reads": sorted(self.platform.asked)}
        if self.plan is None:
            return {"diagnostics": diagnostic_documents(self.diagnostics), **reads}
        if self.unmanaged is not None:
            drift = drift_document(self.plan, self.unmanaged, without_manifest=self.without_manifest)
            return drift | {"steps": []} | reads
        return plan_document(self.plan) | reads


def opened(case: Mapping[str, Any], folder: Path) -> tuple[Project, Loaded, LivePlatform]:
    """What a verb works with in `case`; its files are written into the empty directory `folder`."""
    for name, text in {MANIFEST: case["manifests"], **case.get("files", {})}.items():
        folder.joinpath(name).write_text(text, encoding="utf-8")
    platform = LivePlatform(case.get("live", {}), datetime.fromisoformat(case.get("now", NOW)))
    loaded = load([str(folder / MANIFEST)] if case["manifests"] else [], root=folder)  # "": all have left
    return project_of(case, folder, loaded.policies, platform), loaded, platform


def play(case: Mapping[str, Any], folder: Path) -> Played:
    """Run the pipeline on `case`; `folder` is an empty directory for its files."""
    project, loaded, platform = opened(case, folder)
    if has_errors(loaded.diagnostics):
        return Played(None, loaded.diagnostics, platform)
    desired = Desired(
        loaded.resources, loaded.diagnostics, lambda record: record.source == MANIFEST, loaded.policies
    )
    desired = desired.with_targets([Address.parse(target) for target in case.get("targets", ())])
    if case.get("verb") == "drift":
        drift = anyio.run(find_drift, project, desired)
        return Played(
            drift.plan, drift.plan.diagnostics, platform, drift.unmanaged, len(drift.without_manifest)
        )
    plan = anyio.run(make_plan, project, desired)
    return Played(plan, plan.diagnostics, platform)


def project_of(
    case: Mapping[str, Any], folder: Path, policies: Sequence[Resource], platform: LivePlatform
) -> Project:
    """What a verb works with; its files lie in `folder`."""
    clock = CaseClock(platform.now)
    return Project(
        store=read_only(state_of(case), clock, folder, case.get("at_work", {})),
        platform=platform_client(platform, BASE_URL, lambda: "t0ken", clock, read_only=True),
        capabilities=frozenset(case.get("capabilities", ())),
        limits=Limits(8, 30.0, 180.0, True, 64),
        clock=clock,
        reporter=Reporter(),
        sources=Sources(folder, case.get("env", {})),
        new_id=lambda: "plan-1",
        holder="test",
        providers={each.address.name: _provider(each, platform, clock) for each in policies},
    )


def _provider(policy: Resource, platform: LivePlatform, clock: CaseClock) -> Client:
    url = getattr(policy.spec, "base_url", BASE_URL)
    return provider_client(
        policy.address.name,
        platform,
        url,
        lambda: Sensitive("signing-secret"),
        clock,
        new_nonce=lambda: "nonce",
        read_only=True,
    )


def state_of(case: Mapping[str, Any], key: bytes = KEY) -> State:
    """What the case says that is recorded and open. `key`: of the fingerprints."""
    records = [
        _record(Address.parse(address), given, key) for address, given in case.get("records", {}).items()
    ]
    return State(
        "lineage-1",
        {record.address: record for record in records},
        tuple(map(_intent, case.get("intents", ()))),
        frozenset(),
        unclaimed=tuple(_unclaimed(*item) for item in case.get("unclaimed", {}).items()),
        spooled=frozenset(case.get("spooled", ())),
    )


def _unclaimed(id: str, address: str) -> JournalEntry:
    data = {"unclaimed": id, "because": "its answer came after the call was settled"}
    at = datetime.fromisoformat(LONG_AGO)
    return JournalEntry("run-0", Event.DECIDED, at, Address.parse(address), data=data)


def _record(address: Address, given: Mapping[str, Any], key: bytes) -> StateRecord:
    applied = dict(given.get("applied", {}))
    if "value" in given:
        applied["fingerprint"] = fingerprint(key, address, Sensitive(given["value"]))
    obligations = [
        Obligation(
            "restart",
            owed["because"],
            owed.get("certainty", "owed"),
            datetime.fromisoformat(owed.get("since", NOW)),
            owed.get("machine", ""),
        )
        for owed in given.get("obligations", ())
    ]
    return StateRecord(
        address,
        given.get("id", ""),
        address.app or "org/personal",
        applied,
        _lifecycle(given.get("lifecycle", {})),
        datetime.fromisoformat(given.get("created_at", LONG_AGO)),
        given.get("source", MANIFEST),
        tuple(obligations),
        given.get("inferred", False),
        serial=1,
    )


def _lifecycle(given: Mapping[str, Any]) -> Lifecycle:
    default = Lifecycle()
    return Lifecycle(
        Deletion(given.get("deletion", default.deletion)),
        tuple(given.get("snapshot_before", default.snapshot_before)),
        given.get("timeout_s", default.timeout_s),
        given.get("restart", default.restart),
        given.get("restart_within"),
    )


def _intent(given: Mapping[str, Any]) -> JournalEntry:
    data = {
        "if_unknown": "ask",
        "creates": True,
        "applied": {},
        "scope": "shop",
        "lifecycle": {},
        "source": MANIFEST,
        **given,
    }
    address = Address.parse(data.pop("address"))
    sent_at = datetime.fromisoformat(data.pop("sent_at", LONG_AGO))
    intent = Intent.from_json(data)
    return JournalEntry("run-0", Event.INTENT, sent_at, address, f"{address}#create", data=intent.to_json())


# --- comparing ---


def differences(expected: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """A diff of what was expected and the same parts of `document`, then why something was refused.

    "" when they are equal. An answer in `live` that does not have its wire form is `unreadable: …`.
    """
    found = _same_parts(document, expected)
    if found == expected:
        return ""
    lines = difflib.unified_diff(
        _pretty(expected).splitlines(), _pretty(found).splitlines(), "expected", "planned", lineterm="", n=30
    )
    return "\n".join(["", *lines, *_why_refused(document)])


def _why_refused(document: Mapping[str, Any]) -> Iterator[str]:
    """One line for every error, and for every refused change whose reason no error gives."""
    errors = [problem for problem in document.get("diagnostics", ()) if problem["severity"] == "error"]
    yield from (f"{problem['code']}: {problem['message']}" for problem in errors)
    for change in document.get("changes", ()):
        if change["action"] == "refused" and not any(change["reason"] in item["message"] for item in errors):
            yield f"refused: {change['address']}: {change['reason']}"


def _same_parts(found: Any, expected: Any, key: str = "") -> Any:
    if key in _WHOLE:
        return found
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        return {name: _part(found, name, value) for name, value in expected.items()}
    if isinstance(expected, list) and isinstance(found, list):
        paired = [_same_parts(item, want) for item, want in zip(found, expected, strict=False)]
        return paired + found[len(expected) :]
    return found


def _part(found: Mapping[str, Any], name: str, expected: Any) -> Any:
    if name == "mentions":
        text = json.dumps(found, ensure_ascii=False)
        return [word if word in text else f"not mentioned: {word}" for word in expected]
    return _same_parts(found.get(name), expected, name)


def _pretty(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=120)


def never_read(case: Mapping[str, Any], played: Played) -> list[str]:
    """Answers that the case holds and nobody asked for: a mistake in the case or in the plan."""
    return sorted(set(case.get("live", {})) - set(played.platform.asked))


def secret_values(case: Mapping[str, Any]) -> Iterator[str]:
    """The values that no report may hold."""
    yield from case.get("env", {}).values()
    yield from case.get("files", {}).values()
    yield from case.get("literals", ())


def find_cases() -> list[Path]:
    """All case files below `tests`, by path."""
    tests = Path(__file__).parent.parent
    return sorted([*tests.glob("kinds/*/*.yaml"), *tests.glob("planning/*/*.yaml")])


def case_name(path: Path) -> str:
    return path.relative_to(Path(__file__).parent.parent).with_suffix("").as_posix()
