"""The page in a real Chromium. Without one, only CI fails."""

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from reconciler.sandbox.plugin import RunningSandbox

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None and "CI" not in os.environ, reason="there is no Chromium")


@pytest.fixture(params=[True, False], ids=["", "without script"])
def page(request: pytest.FixtureRequest) -> Iterator[Any]:
    from playwright import sync_api  # late: each worker that collects this file would import it

    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = browser.new_context(
            java_script_enabled=request.param, viewport={"width": 400, "height": 800}
        )
        yield context.new_page()
        browser.close()


def test_a_person_sees_the_world_the_clock_and_the_last_requests(
    page: Any, reconcile_sandbox: RunningSandbox
) -> None:
    reconcile_sandbox.app("shop")
    id = reconcile_sandbox.ok("POST", "/v1/apps/shop/volumes", {"name": "<b>data</b>"})["id"]
    problems: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("request", lambda sent: asked.append(sent.url))
    page.goto(reconcile_sandbox.url)
    volumes = page.get_by_role("region", name="Volumes")
    assert volumes.get_by_role("cell", name=id).is_visible()
    assert volumes.get_by_role("cell", name="<b>data</b>").is_visible()
    assert page.get_by_role("heading", name="Latest requests 1").is_visible()
    assert "(manual)" in page.locator("#clock").inner_text()
    assert page.get_by_role("region", name="Latest requests").get_by_role("cell", name="POST").is_visible()
    assert {url.removeprefix(reconcile_sandbox.url) for url in asked} <= {"/", "/favicon.ico"}
    assert [problem for problem in problems if "favicon" not in problem] == []


def test_it_fits_a_narrow_window(page: Any, reconcile_sandbox: RunningSandbox) -> None:
    reconcile_sandbox.app("shop")
    reconcile_sandbox.ok("POST", "/v1/apps/shop/volumes", {"name": "data" * 20})
    page.goto(reconcile_sandbox.url)
    assert page.locator("body").bounding_box()["width"] <= 400
    assert page.locator("main, body").first.evaluate("each => each.scrollWidth") <= 400


def test_its_links_lead_to_the_world_as_json(page: Any, reconcile_sandbox: RunningSandbox) -> None:
    page.goto(reconcile_sandbox.url)
    page.get_by_role("link", name="world").click()
    assert page.url.endswith("/_sandbox/world")
    assert '"apps"' in page.content()
