"""The documentation's site: built by one command, from one source, without a broken link."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from reconciler.cli.main import cli
from reconciler.manifests.authoring.explain import all_explanations
from reconciler.policies import find_manifest_kinds
from tests.docs.pages import ROOT
from tests.servers import in_a_thread

if TYPE_CHECKING:  # only some tests need it
    from playwright.sync_api import Page


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
    with in_a_thread(ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=site))) as url:
        yield url


@in_a_browser
def test_nothing_scrolls_sideways_on_a_phone_or_a_desk_in_the_light_or_the_dark(
    site: Path, served: str
) -> None:
    """All pages as they are written, and some with the theme's scripts, which cost most of a page's time."""
    from playwright import sync_api

    pages = sorted(
        page.relative_to(site).as_posix() for page in site.rglob("*.html") if page.name != "404.html"
    )
    scripted = ("index.html", "reference/command-line.html", "how-to/ci.html", "how-to/inventory.html")
    asked: set[str] = set()
    grounds: dict[str, str] = {}
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
        for names, scripts in ((pages, False), (scripted, True)):
            page = browser.new_page(java_script_enabled=scripts)
            page.on("request", lambda sent: asked.add(sent.url))
            for name, scheme in zip(names, cycle(schemes), strict=False):  # every other page in the dark
                page.emulate_media(color_scheme=scheme)
                page.goto(f"{served}/{name}")
                if not scripts:  # they lay out the header, and give a table a scroll bar of its own
                    page.evaluate(
                        "document.querySelector('.md-header').remove();"
                        "for (const each of document.querySelectorAll('table'))"
                        " Object.assign(each.style, {display: 'block', overflow: 'auto'})"
                    )
                for width in (390, 1300):
                    page.set_viewport_size({"width": width, "height": 900})
                    wide = _wide(page)
                    assert wide == [], f"{name} at {width}: {wide[0][:80]}"
                grounds[scheme] = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        browser.close()
    assert grounds["light"] != grounds["dark"]
    assert [url for url in asked if not url.startswith((served, "data:"))] == []


def _wide(page: "Page") -> list[str]:
    """The text of what is wider than its place, once the menus, which move after a resize, rest."""
    script = (
        "() => [document.scrollingElement, ...document.querySelectorAll('pre > code')]"
        ".filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.textContent)"
    )
    found: list[str] = []
    for _ in range(100):
        found = page.evaluate(script)
        if not found:
            break
        page.wait_for_timeout(20)
    return found


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
