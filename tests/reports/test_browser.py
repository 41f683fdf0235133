"""The HTML report in a real Chromium. Without one, only CI fails."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.reports.formats.html import FORMAT
from reconciler.reports.report import PlanReport
from tests.reports.plans import DIAGNOSTICS, PLAN
from tests.reports.reports import rehearsal_of, reports_of

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None and "CI" not in os.environ, reason="there is no Chromium"),
]
# One word of each would set off something, if it left its place.
HOSTILE = (
    "<img src=https://evil.test/a onerror=alert(1)><script>alert(2)</script></style></svg>\"'>" + "x" * 300
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright import sync_api  # late: each worker that collects this file would import it

    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


def test_hostile_reports_ask_for_nothing_run_nothing_and_fit_a_phone(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    page = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme="dark")
    told: list[str] = []
    page.on("console", lambda message: told.append(message.text))
    page.on("dialog", lambda dialog: told.append(dialog.message))
    page.on("request", lambda sent: told.append(sent.url) if sent.url != file.as_uri() else None)
    for report in (PlanReport(plan=PLAN, diagnostics=DIAGNOSTICS), *reports_of(HOSTILE)):
        file.write_text(FORMAT.render(report), encoding="utf-8")
        page.goto(file.as_uri())
        assert told == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.evaluate("document.querySelectorAll('script, img, iframe').length") == 0
        # The policy lets the styles through: the page is dark.
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 17, 23)"
    page.close()


def test_what_is_folded_is_printed(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(FORMAT.render(PlanReport(plan=PLAN)), encoding="utf-8")
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(file.as_uri())
    call = page.locator("code", has_text="DELETE /v1/apps/shop/volumes/vol_9")
    assert not call.is_visible()
    page.emulate_media(media="print")
    assert call.is_visible()
    page.close()


def test_the_matrix_of_a_rehearsal_fits_a_printed_page(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    rehearsal = rehearsal_of("PostgresCluster/the-orders-of-all-shops#create")
    file.write_text(FORMAT.render(PlanReport(plan=PLAN, rehearsal=rehearsal)), encoding="utf-8")
    page = browser.new_page(viewport={"width": 680, "height": 1000})  # of A4, without its margins
    page.goto(file.as_uri())
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= 680
    assert page.locator(".matrix th").last.is_visible()
    page.close()
