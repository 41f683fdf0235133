"""The documentation's site: built by one command, from one source, without a broken link."""

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal

import pytest

from reconciler.cli.main import cli
from reconciler.manifests.authoring.explain import all_explanations
from reconciler.policies import find_manifest_kinds
from tests.docs.pages import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(built)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    return built


def test_every_page_is_in_the_site(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs")).with_suffix(".html").is_file()


def test_each_page_has_a_markdown_copy_and_llms_txt_lists_them(site: Path) -> None:
    listed = re.findall(r"\]\(([^)]+)\)", (site / "llms.txt").read_text(encoding="utf-8"))
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert pages | {"reference/errors.md", "agents.md"} <= set(listed)
    assert [name for name in listed if not (site / name).is_file()] == []
    tutorial = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    assert (site / "tutorial.md").read_text(encoding="utf-8").strip() == tutorial.strip()


def test_the_reference_names_every_verb_kind_and_code(site: Path) -> None:
    verbs = cli.list_commands(cli.make_context("reconcile", [], resilient_parsing=True))
    assert _missing(site, "command-line", [f"reconcile {verb}" for verb in verbs]) == []
    assert _missing(site, "fields", find_manifest_kinds()) == []
    assert _missing(site, "errors", [page.code for page in all_explanations()]) == []


def _missing(site: Path, page: str, names: Iterable[str]) -> list[str]:
    """Those of `names` that are in no heading of the page."""
    text = (site / f"reference/{page}.html").read_text(encoding="utf-8")
    headings = re.findall(r"<h2[^>]*>(.*?)</h2>", text)
    return [name for name in names if not any(name in heading for heading in headings)]


_ELSEWHERE = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*(?:src|href)=[\"']?(?:https?:)?//[^>]*>")


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert _ELSEWHERE.findall(page.read_text(encoding="utf-8")) == [], page


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
in_a_browser = pytest.mark.skipif(CHROMIUM is None and "CI" not in os.environ, reason="there is no Chromium")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def served(site: Path) -> Iterator[str]:
    """The address of the built site."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=site)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@in_a_browser
def test_nothing_scrolls_sideways_on_a_phone_or_a_desk_in_the_light_or_the_dark(
    site: Path, served: str
) -> None:
    from playwright import sync_api

    pages = sorted(
        page.relative_to(site).as_posix() for page in site.rglob("*.html") if page.name != "404.html"
    )
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        asked: set[str] = set()
        page.on("request", lambda sent: asked.add(sent.url))
        grounds = {}
        schemes: tuple[tuple[int, Literal["light", "dark"]], ...] = ((390, "light"), (1300, "dark"))
        for width, scheme in schemes:
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            for name in pages:
                page.goto(f"{served}/{name}")
                wide = page.evaluate(
                    "() => [document.scrollingElement, ...document.querySelectorAll('pre > code')]"
                    ".filter((each) => each.scrollWidth > each.clientWidth + 1)"
                    ".map((each) => each.textContent)"
                )
                assert wide == [], f"{name} at {width}: {wide[0][:80]}"
            grounds[scheme] = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        browser.close()
    assert grounds["light"] != grounds["dark"]
    assert [url for url in asked if not url.startswith((served, "data:"))] == []


@in_a_browser
def test_the_search_finds_a_page_and_examples_can_be_copied(served: str) -> None:
    from playwright import sync_api

    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
        page = context.new_page()
        page.goto(f"{served}/index.html")
        # Typed key by key: the page searches at the end of a keystroke, which filling a field does not send.
        page.get_by_role("textbox", name="Search").press_sequentially("volume-shrink")
        page.locator(".md-search-result__item").first.wait_for()
        page.goto(f"{served}/how-to/ci.html")
        assert page.locator("pre .nt").count() > 0  # the YAML is highlighted
        page.locator(".highlight:has(.filename)").first.get_by_title("Copy to clipboard").click()
        copied = page.evaluate("() => navigator.clipboard.readText()")
        browser.close()
    assert copied.startswith("apiVersion: reconciler/v1\n")
