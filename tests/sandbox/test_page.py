"""The page at `/`, which shows the world to a person, without a script."""

import re
from html.parser import HTMLParser
from pathlib import Path

from reconciler import sandbox
from tests.sandbox.platform import Platform

VOLUMES = "/v1/apps/shop/volumes"


class Page(HTMLParser):
    """The texts of the rows under each heading, and every tag with what it links to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: dict[str, list[list[str]]] = {}
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.marked = 0
        self._under = ""
        self._cell = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        given = dict(attrs)
        self.links += [value for name, value in attrs if name in ("href", "src") and value]
        if tag == "h2":
            self._under = given["id"] or ""
            self.rows[self._under] = []
        elif tag == "tr":
            self.rows[self._under].append([])
            self.marked += given.get("class") == "changed"
        self._cell = tag == "td"
        if self._cell:
            self.rows[self._under][-1].append("")

    def handle_data(self, data: str) -> None:
        if self._cell:
            self.rows[self._under][-1][-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._cell = False


def shown(platform: Platform) -> Page:
    answer = platform.call("GET", "/", headers={})
    assert (answer.status, answer.content_type) == (200, "text/html; charset=utf-8")
    return Page(answer.body.decode())


def test_it_shows_the_world_the_clock_and_the_last_requests(platform: Platform) -> None:
    id = platform.volume(size_gb=10)["id"]
    cluster = platform.cluster(name="orders")["id"]
    platform.ok("POST", f"{VOLUMES}/{id}/snapshots")
    platform.ok("POST", "/v1/apps/shop/secrets/A", {"value": "correct horse"})
    platform.machine(volumes=[id])
    platform.ok("GET", VOLUMES)
    platform.switch(secret_status=200)
    platform.fault(action="html", path="/v1/postgres*")
    page = shown(platform)
    assert page.rows["apps"][1:] == [["shop", "personal", "ams"]]
    assert page.rows["clusters"][1] == [cluster, "orders", "creating", "basic", "ams", "10"]
    assert page.rows["volumes"][1][:5] == [id, "shop", "data", "created", "10"]
    assert page.rows["volumes"][1][-1] == "m1"
    assert page.rows["snapshots"][1][1:3] == [id, "waiting"]
    assert page.rows["secrets"][1][:2] == ["shop", "A"]
    assert page.rows["machines"][1][:4] == ["m1", "shop", page.rows["machines"][1][2], "started"]
    assert page.rows["changed-switches"][1:] == [["secret_status", "200", "201"]]
    assert page.rows["active-faults"][1][:3] == ["html", "*", "/v1/postgres*"]
    first = page.rows["latest-requests"][1]
    assert (first[0], first[2:]) == ("5", ["GET", VOLUMES, "200"])
    assert page.marked == 4
    text = platform.call("GET", "/").body.decode()
    assert "2026-03-01T12:00:00Z" in text
    assert "correct horse" not in text


def test_it_follows_the_clock(platform: Platform) -> None:
    platform.cluster()
    platform.advance(150)
    assert shown(platform).rows["clusters"][1][2] == "ready"


def test_it_needs_no_script_and_nothing_from_elsewhere(platform: Platform) -> None:
    page = shown(platform)
    assert not page.tags & {"script", "img", "iframe", "object"}
    assert all(link.startswith("/") for link in page.links)
    for link in page.links:
        if link.startswith("/_sandbox/"):
            platform.ok("GET", link)
    assert "default-src 'none'" in platform.call("GET", "/").headers["content-security-policy"]


def test_it_has_a_main_part_and_its_quiet_texts_can_be_read(platform: Platform) -> None:
    """Source: WCAG 2.2, 1.4.3: a contrast of at least 4.5, here against white and a dark page."""

    def luminance(grey: int) -> float:
        return float(((grey / 255 + 0.055) / 1.055) ** 2.4)

    for page in ("page.html", "sign_in.html"):
        text = Path(sandbox.__file__).with_name(page).read_text()
        assert text.count("<main") == text.count("</main>") == 1
        # Without one, axe takes a dark page for a white one, and finds its texts too pale.
        assert "html { background: Canvas; color: CanvasText; }" in text
        light, dark = (int(grey[-2:], 16) for grey in re.findall(r"\.quiet { color: #(\w{6})", text))
        assert (1 + 0.05) / (luminance(light) + 0.05) > 4.5
        assert (luminance(dark) + 0.05) / (luminance(0x1E) + 0.05) > 4.5


def test_names_are_text_and_never_markup(platform: Platform) -> None:
    name = "<script>alert(1)</script>"
    platform.volume(name=name)
    half = platform.call("POST", VOLUMES, {"name": "\ud800 half a character"})
    assert (half.status, half.json()["error"]) == (422, "name must be valid Unicode")
    page = shown(platform)
    assert page.rows["volumes"][1][2] == name
    assert "script" not in page.tags


def test_a_large_world_is_cut_to_its_last_hundred(platform: Platform) -> None:
    for _ in range(101):
        platform.volume(require_unique_zone=False)
    page = shown(platform)
    assert len(page.rows["volumes"]) == 101
    assert page.rows["volumes"][-1][0] == platform.world()["volumes"][-1]["id"]


def test_looking_at_it_is_no_request_to_the_platform(platform: Platform) -> None:
    platform.fault(action="status", status=500)
    shown(platform)
    assert platform.log() == []
    assert len(platform.ok("GET", "/_sandbox/faults")) == 1
