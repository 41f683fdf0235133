"""What a controller shows: metrics that parse, a page from which no text breaks out, and to whom."""

import asyncio
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from queue import Queue
from socket import create_connection, socket
from threading import Thread
from typing import Any

import httpx
import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from reconciler.controller.status import ScopeStatus, Seen, Status, View
from reconciler.controller.web import application, serve
from reconciler.core import listening
from reconciler.core.listening import listening_at
from reconciler.drills.results import Result
from reconciler.kinds.roles import Look

AT = datetime(2026, 1, 1, tzinfo=UTC)
HOSTILE = "<img src=https://evil.test/a onerror=alert(1)><script>alert(2)</script></style>\"'>" + "x" * 300
SHOP = ScopeStatus("shop", Status.DRIFTED, AT, AT + timedelta(minutes=1), "Volume/shop/data")
LAB = ScopeStatus("lab", Status.SUSPENDED, AT)
DATA = "Volume/shop/data"
VIEW = View(
    "prod",
    {"shop": SHOP, "lab": LAB},
    {
        "shop": Seen(
            Status.DRIFTED,
            "",
            owed=2,
            owed_since=AT,
            questions=1,
            due={(DATA, "snapshot_max_age_h"): AT},
            proven={DATA: Result(AT, True, recovery_s=720.0, lost_s=240.0)},
            fills={DATA: Look(AT, 10, 2**33, 10 * 2**30), "Volume/shop/new": Look(AT, 10)},
        )
    },
    {"shop": AT},
    {"done": 3, "failed": 1},
    waited_s=1.5,
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def client(*views: View, token: str = "") -> TestClient:
    return TestClient(application(lambda: views, token))


def test_metrics_are_given_whatever_version_is_asked_for() -> None:
    strange = {"accept": "application/openmetrics-text;version=abc"}
    answer = client(VIEW).get("/metrics", headers=strange)
    assert answer.status_code == 200
    assert "reconcile_" in answer.text


def test_metrics_say_what_is_known_of_each_scope() -> None:
    answer = client(VIEW).get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    samples = [each for family in text_string_to_metric_families(answer.text) for each in family.samples]
    found = {
        (each.name, *sorted(value for name, value in each.labels.items() if name != "environment")): each
        for each in samples
    }
    values = {key: sample.value for key, sample in found.items() if key[0] != "reconciler_build_info"}
    assert values == {
        ("reconciler_scope_status", "drifted", "shop"): 1,
        ("reconciler_scope_status", "lab", "suspended"): 1,
        ("reconciler_scope_status_since_timestamp_seconds", "shop"): AT.timestamp(),
        ("reconciler_scope_status_since_timestamp_seconds", "lab"): AT.timestamp(),
        ("reconciler_scope_last_success_timestamp_seconds", "shop"): AT.timestamp() + 60,
        ("reconciler_scope_last_apply_timestamp_seconds", "shop"): AT.timestamp(),
        ("reconciler_scope_owed", "shop"): 2,
        ("reconciler_scope_owed_since_timestamp_seconds", "shop"): AT.timestamp(),
        ("reconciler_scope_open_questions", "shop"): 1,
        (
            "reconciler_objective_due_timestamp_seconds",
            "Volume/shop/data",
            "shop",
            "snapshot_max_age_h",
        ): AT.timestamp(),
        ("reconciler_drill_last_success_timestamp_seconds", "Volume/shop/data", "shop"): AT.timestamp(),
        ("reconciler_drill_recovery_seconds", "Volume/shop/data", "shop"): 720,
        ("reconciler_drill_lost_seconds", "Volume/shop/data", "shop"): 240,
        ("reconciler_object_used_bytes", "Volume/shop/data", "shop"): 2**33,
        ("reconciler_object_total_bytes", "Volume/shop/data", "shop"): 10 * 2**30,
        ("reconciler_suspended_scopes",): 1,
        ("reconciler_rate_limit_wait_seconds_total",): 1.5,
        ("reconciler_calls_total", "done"): 3,
        ("reconciler_calls_total", "failed"): 1,
    }
    assert {sample.labels["environment"] for sample in found.values()} == {"prod"}


def test_a_token_is_asked_for_but_whether_it_lives_everybody_may_know() -> None:
    guarded = client(VIEW, token="secret")
    for path in ("/", "/metrics", "/events"):
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Bearer "}):
            answer = guarded.get(path, headers=headers)
            assert (answer.status_code, answer.text) == (401, "a token is needed")
    assert guarded.get("/metrics", headers={"authorization": "Bearer secret"}).status_code == 200
    assert guarded.get("/healthz").text == "ok"
    assert guarded.post("/", headers={"authorization": "Bearer secret"}).status_code == 405


def test_no_text_breaks_out_of_the_page() -> None:
    hostile = replace(SHOP, scope=HOSTILE, reason=HOSTILE)

    async def runs() -> dict[str, str]:
        return {"4f2a": HOSTILE}

    views = [View(HOSTILE, {HOSTILE: hostile})]
    answer = TestClient(application(lambda: views, runs=[runs])).get("/")
    assert "reconcile history 4f2a" in answer.text
    assert "<img" not in answer.text
    assert "<script>" not in answer.text
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    again = client(VIEW).get("/").headers["content-security-policy"]
    assert again != policy, "a nonce is used once"
    assert "Nothing has been looked at yet." in client().get("/").text


@contextmanager
def served(views: list[View]) -> Iterator[str]:
    """The pages on a socket, from a thread of their own."""
    began = Queue[tuple[asyncio.AbstractEventLoop, "asyncio.Task[None] | None"]]()

    async def main(listener: socket) -> None:
        began.put((asyncio.get_running_loop(), asyncio.current_task()))
        await serve(listener, application(lambda: views))

    def run(listener: socket) -> None:
        with suppress(asyncio.CancelledError):
            asyncio.run(main(listener))

    with listening_at("127.0.0.1", 0) as (listener, url):
        thread = Thread(target=run, args=(listener,))
        thread.start()
        loop, task = began.get()
        assert task is not None
        try:
            yield url
        finally:
            loop.call_soon_threadsafe(task.cancel)
            thread.join()


@pytest.mark.parametrize("first", [b"", b"GET / HTTP/1.1\r\nHost:"])
def test_strangers_who_send_no_head_of_a_request_take_no_place_for_long(
    first: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "HEAD_S", 0.05)
    with served([VIEW]) as url, ExitStack() as open_ones:
        port = int(url.rpartition(":")[2])
        strangers = [open_ones.enter_context(create_connection(("127.0.0.1", port), 5)) for _ in range(110)]
        for stranger in strangers:
            stranger.sendall(first)
        assert [stranger.recv(1) for stranger in strangers] == [b""] * len(strangers)
        assert httpx.get(f"{url}/healthz").status_code == 200


def test_a_head_without_an_end_is_cut_and_a_wrong_one_writes_no_line_into_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with served([VIEW]) as url:
        port = int(url.rpartition(":")[2])
        with create_connection(("127.0.0.1", port), 5) as stranger, suppress(ConnectionError):
            stranger.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n" + b"x: y\r\n" * 40_000)
            assert stranger.recv(12) == b"HTTP/1.1 400"
    assert caplog.messages == []  # all lines of a controller's log are JSON


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None and "CI" not in os.environ, reason="there is no Chromium")
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_runs_nothing_foreign_and_shows_what_changes(width: int) -> None:
    # Late: each worker that collects this file would import them.
    from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
    from playwright import sync_api

    views = [View("prod", {"shop": replace(SHOP, reason=HOSTILE)})]
    told: list[str] = []
    with served(views) as url, sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page: Any = browser.new_page(viewport={"width": width, "height": 800})
        page.on("console", lambda message: told.append(message.text))
        page.on("dialog", lambda dialog: told.append(dialog.message))
        page.goto(url)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.wait_for_selector("text=drifted")
        findings = Axe().run(page).response["violations"]
        assert [(each["id"], each["help"]) for each in findings] == []
        page.wait_for_timeout(1500)  # the stream has begun
        views[0] = View("prod", {"shop": replace(SHOP, status=Status.IN_SYNC, reason="")})
        page.wait_for_selector("text=in-sync")
        browser.close()
    assert [text for text in told if "favicon" not in text] == []
