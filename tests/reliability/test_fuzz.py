"""Mutated manifests, mutated and hostile answers: a sample of `python -m tests.reliability.fuzz`, and what
failed once.

That the checks can fail is shown with planted defects, in this process only.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import httpx
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.core.steps import Call
from reconciler.core.wire import Shape
from reconciler.execution import settling
from reconciler.execution.settling import Settlement
from reconciler.manifests.reading import syntax as complaint
from reconciler.manifests.validation import loader as loading
from reconciler.project.project import Project
from reconciler.services import client, outcome, platform
from reconciler.services.client import Client
from reconciler.services.http1 import Http1Connection
from reconciler.services.outcome import Outcome, Verdict
from reconciler.services.service import Service
from reconciler.services.transport import HttpTransport
from tests.reliability.fuzz import answers, campaign, manifests
from tests.reliability.fuzz.answers import REQUESTS
from tests.reliability.fuzz.campaign import Report, run
from tests.reliability.fuzz.mutation import Files
from tests.reliability.fuzz.regressions import FOUND, decoded, encoded
from tests.reliability.fuzz.subjects import ANSWERS, MANIFESTS, RESPONSES
from tests.reliability.proof import SHELF
from tests.reliability.responses import situations
from tests.reliability.responses.scene import VALUE

SAMPLE_OF_MANIFESTS = 750
SAMPLE_OF_SEEDS = 100  # about 350 mutated answers
SAMPLE_OF_CONNECTIONS = 50  # 500 hostile answers
MOST_SEEDS = 150  # within which a planted defect is caught
FIRST = 10_000_000  # far from where the command begins


@pytest.fixture(scope="module")
def templates() -> Iterator[situations.Ground]:
    with TemporaryDirectory(dir=SHELF) as folder:
        yield anyio.run(situations.prepare, Path(folder))


def told(report: Report) -> list[str]:
    return [problem for failure in report.failures for problem in failure.problems]


def test_no_manifest_brings_about_more_than_diagnostics() -> None:
    report = run(MANIFESTS, FIRST, SAMPLE_OF_MANIFESTS, jobs=2)
    assert report.failures == []
    seen = ("manifests refused", "planned", "planned with errors", "settings read", "settings refused")
    assert all(report.counts[name] > 0 for name in seen), report.counts


def test_no_answer_brings_about_what_it_may_not() -> None:
    report = run(RESPONSES, FIRST, SAMPLE_OF_SEEDS, jobs=2)
    assert report.failures == []
    assert all(report.counts[f"in {name}"] > 0 for name in situations.SITUATIONS), report.counts
    assert all(report.counts[f"mutated, {kind}"] > 0 for kind in ("extra", "odd", "broken", "lying"))


def test_no_hostile_answer_is_taken_for_another_requests() -> None:
    report = run(ANSWERS, FIRST, SAMPLE_OF_CONNECTIONS, jobs=2)
    assert report.failures == []
    assert report.counts["hostile answers"] == SAMPLE_OF_CONNECTIONS * REQUESTS
    assert all(report.counts[name] > 0 for name in ("directly", "through a proxy"))


@pytest.mark.parametrize("file", sorted(FOUND.glob("*.json")), ids=lambda file: file.stem)
async def test_what_failed_once_fails_no_more(file: Path, tmp_path: Path) -> None:
    kept = file.read_bytes()
    if file.name.startswith(RESPONSES.name):
        ground = await situations.prepare(tmp_path)
        assert await situations.check(ground, *situations.replayed(kept)) == []
    else:
        prepared = await manifests.prepare(tmp_path)
        try:
            assert await manifests.check(prepared, decoded(kept)) == []
        finally:
            await prepared.close()


# --- hypothesis: no mutation of what is known, and whatever it comes up with ---

_TEXT = (
    st.sampled_from(("apiVersion", "kind", "metadata", "spec", "name", "app", "value_from", "Secret"))
    | st.text()
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _TEXT | st.dates(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=5),
    max_leaves=20,
)
_MANIFESTS = st.fixed_dictionaries(
    {
        "apiVersion": st.just("reconciler/v1") | _VALUES,
        "kind": st.sampled_from(("Volume", "Secret", "PostgresCluster", "RetentionPolicy")),
        "metadata": st.fixed_dictionaries(
            {"name": st.just("data") | _VALUES, "app": st.just("shop") | _VALUES}
        ),
        "spec": st.dictionaries(
            st.sampled_from(("region", "size_gb", "count", "from", "value_from", "plan", "selector")), _VALUES
        ),
    },
    optional={"lifecycle": _VALUES, "status": _VALUES},
)


@given(
    st.binary(max_size=200)
    | _VALUES.map(lambda value: yaml.safe_dump(value, allow_unicode=True).encode("utf-8", "replace"))
    | st.lists(_MANIFESTS, max_size=3).map(
        lambda documents: yaml.safe_dump_all(documents).encode("utf-8", "replace")
    )
)
@settings(
    max_examples=150,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_whatever_hypothesis_writes_is_loaded_or_refused_at_its_place(tmp_path: Path, content: bytes) -> None:
    assert manifests.loaded(tmp_path, Files("manifests", (content,)))[1] == []


# --- that the checks can fail ---


def _raise(*arguments: Any, **named: Any) -> Any:
    raise ValueError("planted")


def _dawdle(*arguments: Any, **named: Any) -> Any:
    until = time.process_time() + 5
    while time.process_time() < until:
        pass


def _points_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    honest: Any = complaint.Complaint.span

    def off(it: Any, at: tuple[int, int] | None = None, width: int = 1) -> Any:
        span = honest(it, at, width)
        return span._replace(line=span.line + 7)

    monkeypatch.setattr(complaint.Complaint, "span", off)


def _plan_that_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    honest: Any = vars(manifests)["make_plan"]

    async def sends(project: Project, desired: Any) -> Any:
        request = vars(project.platform._transport)["_inner"].request  # around the door of what only reads
        await request("POST", "http://127.0.0.1:9/v1/apps/shop/volumes", headers={}, body=b"{}", deadline_s=1)
        return await honest(project, desired)

    monkeypatch.setattr(manifests, "make_plan", sends)


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (lambda patch: patch.setattr(loading, "surprises", _raise), "ValueError: planted"),
        (lambda patch: patch.setattr(manifests, "make_plan", _raise), "ValueError: planted"),
        (_points_elsewhere, "points at line"),
        (lambda patch: patch.setattr(loading, "holds_secrets", lambda kind: False), "a literal in a Secret"),
        (_plan_that_sends, "planning sent"),
        (
            lambda patch: patch.setattr(manifests, "render_plan", lambda plan: manifests.SECRET_VALUE),
            "is shown",
        ),
        (lambda patch: patch.setattr(manifests, "dump_plan", lambda plan: b"{}"), "not a saved plan"),
    ],
    ids=["traceback", "traceback while planning", "position", "literal", "mutation", "value", "saved plan"],
)
def test_a_planted_defect_of_loading_is_caught(
    plant: Callable[[pytest.MonkeyPatch], None], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    report = run(MANIFESTS, FIRST, 250, jobs=1)
    assert any(says in problem for problem in told(report))
    assert all(decoded(failure.input) for failure in report.failures)


def _httpx_own_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HttpTransport, "_open", lambda transport: httpx.AsyncClient())


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (_httpx_own_engine, "was taken for it"),
        (
            lambda patch: patch.setattr(Http1Connection, "is_usable", lambda connection: True),
            "was taken for it",
        ),
        (
            lambda patch: patch.setattr(Http1Connection, "on_message_begin", lambda connection: None),
            "two in one segment",
        ),
    ],
    ids=["httpx", "bytes before the next request", "two in one segment"],
)
def test_a_planted_defect_of_the_wire_is_caught(
    plant: Callable[[pytest.MonkeyPatch], None], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    monkeypatch.setattr(answers, "PATIENCE_S", 0.5)
    problems: list[str] = []
    for seed in range(MOST_SEEDS):
        problems += told(run(ANSWERS, FIRST + seed, 1, jobs=1))
        if any(says in problem for problem in problems):
            return
    raise AssertionError(f"not caught; other problems: {problems}")


def test_an_input_that_takes_too_long_is_cut_off_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "CPU_S", 0.2)
    monkeypatch.setattr(manifests, "make_files", _dawdle)
    report = run(MANIFESTS, FIRST, 3, jobs=1)
    assert [failure.seed for failure in report.failures] == [FIRST, FIRST + 1, FIRST + 2]
    assert all("of CPU" in problem for problem in told(report))


def test_a_worker_that_dies_is_told_with_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "surprises", lambda *arguments: __import__("os")._exit(1))
    report = run(MANIFESTS, FIRST, 500, jobs=2)
    assert any("died" in problem for problem in told(report))
    assert any(FIRST <= failure.seed < FIRST + 500 for failure in report.failures)


async def _never_landed(*arguments: Any, **named: Any) -> Settlement:
    return Settlement("not_landed")


def _sent_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Client.send

    async def twice(platform: Client, *arguments: Any, **named: Any) -> Outcome:
        first = await honest(platform, *arguments, **named)
        return await honest(platform, *arguments, **named) if first.kind is Verdict.UNKNOWN else first

    monkeypatch.setattr(Client, "send", twice)


def _unreadable_means_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    honest: Any = vars(client)["read_shape"]

    def read(shape: Shape, body: bytes) -> Any:
        try:
            return honest(shape, body)
        except ValueError:
            return []

    monkeypatch.setattr(client, "read_shape", read)


def _half_a_character(*given: Any) -> tuple[str, str]:
    return "", "\ud800"


def _drift_that_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    honest: Any = vars(situations)["find_drift"]

    async def sends(project: Project, desired: Any) -> Any:
        await project.platform.send(Call("POST", "/v1/apps/shop/volumes", {"name": "x"}), id_path="id")
        return await honest(project, desired)

    monkeypatch.setattr(situations, "find_drift", sends)


def _html_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    honest: Any = vars(outcome)["is_html"]

    def fails(answer: Any) -> Any:
        return honest(answer) and _raise()

    monkeypatch.setattr(outcome, "is_html", fails)


def _refused_by_any_error() -> Service:
    policy = replace(platform.SERVICE.policy, by_anyone=frozenset(range(400, 600)))
    return replace(platform.SERVICE, policy=policy)


@pytest.mark.parametrize(
    ("plant", "situation", "says"),
    [
        (
            lambda patch: patch.setattr(settling.Evidence, "settle", _never_landed),
            "apply-new",
            "although the first had its effect",
        ),
        (lambda patch: patch.setattr(settling, "LISTS_WITHOUT_A_TRACE", 1), "apply-new", "without 3 lists"),
        (
            lambda patch: patch.setattr(platform, "SERVICE", _refused_by_any_error()),
            "apply-new",
            "clusters called",
        ),
        (_sent_twice, "apply-changes", "was sent again"),
        (_unreadable_means_empty, "apply-lost", "lists that show no trace"),
        (_drift_that_sends, "drift", "was sent"),
        (_html_is_a_bug, "apply-changes", "ValueError: planted"),
        (lambda patch: patch.setattr(client, "error_text", _half_a_character), "plan", "surrogates not"),
        (lambda patch: patch.setattr(situations, "plan_document", lambda plan: VALUE), "plan", "is shown"),
    ],
    ids=[
        *("resend", "one list", "503 is no", "twice", "unreadable is empty", "drift sends"),
        *("traceback", "text", "value"),
    ],
)
async def test_a_planted_defect_of_reading_answers_is_caught(
    plant: Callable[[pytest.MonkeyPatch], None],
    situation: str,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    templates: situations.Ground,
) -> None:
    plant(monkeypatch)
    problems: list[str] = []
    for seed in range(MOST_SEEDS):
        problems = await situations.check_in(templates, situation, seed)
        if any(says in problem for problem in problems):
            break
    else:
        raise AssertionError(f"not caught; other problems: {problems}")
    kept = templates.last
    assert any(says in problem for problem in await situations.check(templates, *situations.replayed(kept)))
    monkeypatch.undo()
    assert await situations.check(templates, *situations.replayed(kept)) == []


def test_what_is_kept_of_a_manifest_is_what_it_was() -> None:
    files = Files("manifests", (b"kind: \xff\n", "ä: 1\r\n".encode()), literal=True)
    assert decoded(encoded(files)) == files
