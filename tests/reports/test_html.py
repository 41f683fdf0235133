"""HTML: one file that asks for nothing and runs nothing, and no text that leaves its place."""

import re
import xml.etree.ElementTree as ElementTree
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

import pytest
from hypothesis import given
from msgspec.structs import replace

from reconciler.core.diagnostics import Span, error
from reconciler.core.model import Action, Change
from reconciler.core.steps import Call, Step
from reconciler.rehearsal.results import CALL_FAULTS
from reconciler.reports.escape import visible
from reconciler.reports.formats.html import FORMAT, MOST_DRAWN
from reconciler.reports.report import ApplyReport, DriftReport, Failure, PlanReport, Report
from tests.reports.plans import DIAGNOSTICS, DRIFT, EMPTY, OWED, PLAN, RESULTS
from tests.reports.reports import ADDRESS, HOST, HOSTILE, harmless, rehearsal_of, reports_of, texts

VOID = {"meta", "link", "img", "br", "hr", "input", "base"}
FREE = {"href", "d", "x", "y", "width", "height", "viewbox", "content"}  # a name makes a drawing wider


class Page(HTMLParser):
    """The tags of a page with their attributes, its text, and what is wrong with their nesting."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text: list[str] = []
        self.links: list[str] = []
        self.styles: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        said = (name if name in FREE else f"{name}={value}" for name, value in attributes)
        self.tags.append(" ".join([tag, *said]))
        self.links += [value or "" for name, value in attributes if name in ("href", "src", "action")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self.tags.append(f"/{tag}")

    def handle_comment(self, data: str) -> None:
        self.tags.append("comment")

    def handle_data(self, data: str) -> None:
        (self.styles if self.open[-1:] == ["style"] else self.text).append(data)


def shape(report: Report) -> list[str]:
    page = Page(FORMAT.render(report))
    assert all(link.startswith("https://git.example/shop/blob/") for link in page.links)
    return page.tags


@given(texts)
def test_no_text_leaves_its_place(text: str) -> None:
    text = " ".join(text.splitlines()).strip()
    if not visible(text).strip():
        return
    assert tuple(map(shape, reports_of(text))) == harmless(shape)


@pytest.mark.parametrize("text", HOSTILE)
def test_text_of_several_lines_and_what_cannot_be_seen_is_spelled_out(text: str) -> None:
    for report in reports_of(text):
        shown = FORMAT.render(report)
        assert not re.search("[\u202e\u2028]|^::", shown, re.MULTILINE)
        assert "<script" not in shown
        assert "<img" not in shown


def test_its_policy_allows_its_own_styles_and_nothing_else() -> None:
    text = FORMAT.render(PlanReport(plan=PLAN))
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    styles = Page(text).styles
    assert len(styles) == 2
    digests = {f"'sha256-{b64encode(sha256(each.encode()).digest()).decode()}'" for each in styles}
    assert set(re.findall(r"'sha256-[^']*'", policy)) == digests
    assert not re.search(r"<(script|link|img|iframe|form|base)\b|\bstyle=|\son\w+=", text)


def test_it_says_what_hurts_first_and_shows_the_order() -> None:
    text = FORMAT.render(PlanReport(plan=PLAN, diagnostics=DIAGNOSTICS))
    words = "".join(Page(text).text)
    assert words.index("Needs approval:") < words.index("Destroys") < words.index("All other changes")
    assert "--approve-delete Volume/shop/unwanted" in words
    assert '{"size_gb": 20}' in words
    drawing = text[text.index("<svg") : text.index("</svg>") + len("</svg>")]
    texts = [each for each in ElementTree.fromstring(drawing).iter() if each.tag.endswith("}text")]
    assert "unwanted#delete" in {each.text for each in texts}


def test_too_many_calls_are_not_drawn() -> None:
    steps = tuple(Step(f"{ADDRESS}#{at}", ADDRESS, Call("PUT", "/x")) for at in range(MOST_DRAWN + 1))
    drawn = FORMAT.render(PlanReport(plan=replace(EMPTY, steps=steps[1:])))
    assert "<svg" in drawn
    assert drawn.count("<code>PUT /x</code>") == MOST_DRAWN  # the plan has no changes to show them at
    text = FORMAT.render(PlanReport(plan=replace(EMPTY, steps=steps)))
    assert "<svg" not in text
    assert f"{MOST_DRAWN + 1} calls are too many to draw here" in text


def test_results_owed_work_and_what_is_gone_are_shown() -> None:
    words = "".join(Page(FORMAT.render(ApplyReport(plan=PLAN, results=RESULTS, owed=OWED, head="ab12"))).text)
    assert words.index("Not converged") < words.index("the platform answered 422") < words.index("Destroys")
    assert "reconcile resolve Volume/shop/data --restarted" in words
    assert "State head: ab12" in words
    gone = "".join(Page(FORMAT.render(DriftReport(plan=DRIFT))).text)
    assert gone.index("Not there any more") < gone.index("PostgresCluster/orders") < gone.index("Changed")


def test_a_rehearsal_is_a_table_of_calls_and_faults() -> None:
    report = PlanReport(plan=PLAN, rehearsal=rehearsal_of("Volume/shop/data#create"))
    text = FORMAT.render(report)
    table = ElementTree.fromstring(text[text.index("<table") : text.index("</table>") + len("</table>")])
    head, row = (["".join(each.itertext()).split() for each in found] for found in table.iter("tr"))
    assert head == [[each] for each in ("call", *CALL_FAULTS)]
    good, asked = ["converged"], ["decision", "owed"]
    ends = [good, asked, ["failed"], ["pending", "owed"], good, good, asked]
    assert row == [["Volume/shop/data#create"], *ends]
    words = "".join(Page(text).text)
    assert words.index("a clean run fails") < words.index("Not rehearsed") < words.index("lost_after, killed")


def test_a_line_that_may_hold_a_secret_is_not_shown() -> None:
    """As in the text, whose excerpts these are."""
    for private in (True, False):
        problem = error("bad", "no", Span("a.yaml", 1, 1, 2, private))
        report = Failure(message="no", diagnostics=(problem,), read_line=lambda file, line: "pw: hunter2")
        assert ("hunter2" in FORMAT.render(report)) is not private


def test_places_are_links_where_the_host_is_known() -> None:
    change = Change(ADDRESS, Action.UPDATE)
    declared = {ADDRESS: Span("manifests/a b.yaml", 3, 1, 2)}
    report = PlanReport(plan=replace(EMPTY, changes=(change,)), declared=declared, diagnostics=DIAGNOSTICS)
    assert Page(FORMAT.render(report)).links == []
    begins = f"https://git.example/shop/blob/{EMPTY.context.revision}/infra/manifests"
    links = Page(FORMAT.render(replace(report, links=HOST))).links
    assert links == [f"{begins}/a%20b.yaml#L3", f"{begins}/orders.yaml#L7"]
