"""`reconcile graph`: everything is in the picture, once, after what it refers to, and can be read."""

import json
import re
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import to_builtins

from reconciler.cli.main import USAGE, run
from reconciler.manifests.load import load
from reconciler.planning.graph import Graph, Node, plan_graph, resource_graph
from reconciler.planning.saved import dump_plan
from reconciler.reports.documents import graph_document
from reconciler.reports.escape import columns_of
from reconciler.reports.formats.mermaid import render_mermaid
from reconciler.reports.formats.svg import CHARACTER, Box, lay_out, render_svg
from reconciler.reports.formats.text import render_graph
from tests.planning.plans import plan_of

HERE = Path(__file__).parent
SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '\ufffe\uffffend ]"} --> subgraph <b> &amp; #35; `x` \x1b[31m\u202e\x00'


def example() -> Graph:
    loaded = load([str(HERE / "manifests.yaml")], root=HERE)
    assert loaded.diagnostics == ()
    return resource_graph(loaded.resources, loaded.policies)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Nodes that come after earlier ones, in some apps, with names of any length."""
    nodes: list[Node] = []
    for number in range(draw(st.integers(0, 12))):
        after = draw(st.lists(st.sampled_from(nodes), unique=True, max_size=3)) if nodes else []
        nodes.append(
            Node(
                f"node-{number}",
                draw(st.sampled_from(["Volume", "Secret", "PostgresCluster"])),
                draw(st.text(min_size=1, max_size=63)),
                draw(st.sampled_from(["", "shop", "store"])),
                max((each.level + 1 for each in after), default=0),
                tuple(each.key for each in after),
                draw(st.integers(1, 3)),
                draw(st.sampled_from(["", "POST /v1/apps/shop/volumes, wait until state is created"])),
            )
        )
    return Graph("resource", "reference", tuple(nodes))


@pytest.mark.parametrize(
    ("file", "found"),
    [
        ("manifests.txt", lambda: render_graph(example())),
        ("manifests.mmd", lambda: render_mermaid(example())),
        ("manifests.json", lambda: json.dumps(to_builtins(graph_document(example())), indent=1) + "\n"),
        (
            "a_plan_with_waits.txt",
            lambda: render_graph(plan_graph(plan_of("kinds/volume/fork_of_a_new_volume_waits_for_its_id"))),
        ),
    ],
)
def test_a_graph_is_printed_as_recorded(file: str, found: "Sequence[str]") -> None:
    assert found() == (HERE / file).read_text(encoding="utf-8")  # type: ignore[operator]


def test_what_comes_before_stands_on_an_earlier_level() -> None:
    level = {node.key: node.level for node in example().nodes}
    assert level == {
        "ExtensionProvider/mail": 0,
        "PostgresCluster/stock": 0,
        "Volume/shop/data": 0,
        "Machine/shop/worker": 0,
        "PostgresCluster/orders": 1,
        "Volume/shop/copy": 1,
        "Extension/shop/mailer": 1,
        "Secret/shop/URL": 2,
    }


@given(graphs())
def test_every_node_and_arrow_is_drawn_once(graph: Graph) -> None:
    root = ElementTree.fromstring(render_svg(graph))
    drawn = [title.text for title in root.iterfind(f"{SVG}g/{SVG}title")]
    assert sorted(map(str, drawn)) == sorted(node.label for node in graph.nodes)
    assert len(root.findall(f"{SVG}path[@class='arrow']")) == graph.edges
    lines = render_mermaid(graph).split("\n")
    assert len([line for line in lines if "-->" in line and "[" not in line]) == graph.edges
    assert len([line for line in lines if re.match(r'    n\d+\["[^"]*"\]$', line)]) == len(graph.nodes)


@given(graphs())
def test_boxes_hold_their_text_and_do_not_overlap(graph: Graph) -> None:
    drawing = lay_out(graph)
    assert {box.node.key for box in drawing.boxes} == {node.key for node in graph.nodes}
    for box in drawing.boxes:
        assert max(map(columns_of, box.lines)) * CHARACTER <= box.width
        assert 0 < box.x < box.x + box.width < drawing.width
        assert any(lane.y < box.y and box.y + box.height < lane.y + lane.height for lane in drawing.lanes)
    assert not [pair for pair in combinations(drawing.boxes, 2) if overlap(*pair)]
    for one, other in combinations(drawing.lanes, 2):
        assert one.y + one.height < other.y


def overlap(one: Box, other: Box) -> bool:
    across = one.x < other.x + other.width and other.x < one.x + one.width
    return across and one.y < other.y + other.height and other.y < one.y + one.height


@given(graphs())
def test_arrows_point_to_the_right(graph: Graph) -> None:
    assert all(arrow.x1 < arrow.x2 for arrow in lay_out(graph).arrows)


def test_hostile_names_stay_names() -> None:
    graph = Graph(
        "resource", "reference", (Node("a", HOSTILE, HOSTILE, HOSTILE, 0, detail=HOSTILE, place=HOSTILE),)
    )
    root = ElementTree.fromstring(render_svg(graph))
    assert [element.tag for element in root.iterfind(f"{SVG}g//*")].count(f"{SVG}text") == 3
    assert "<b> &amp; #35;" in str(root.findall(f"{SVG}g/{SVG}text")[0].text)
    _, box, node, end = render_mermaid(graph).splitlines()
    assert re.fullmatch(r'  subgraph g0\["[^"<>`\x1b]*"\]', box)
    assert re.fullmatch(r'    n0\["[^"`\x1b]*"\]', node)
    assert end == "  end"
    assert "\x1b" not in render_graph(graph)


def test_the_picture_says_what_it_is_without_being_seen() -> None:
    root = ElementTree.fromstring(render_svg(example()))
    assert root.get("role") == "img"
    named = {each.get("id"): each.text for each in root if each.get("id")}
    assert [named[name] for name in str(root.get("aria-labelledby")).split()] == [
        "Resources and their order",
        "8 resources, 4 references, 3 levels. An arrow points to the resource that is applied later; "
        "each lane is an app.",
    ]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "manifests.yaml").write_bytes((HERE / "manifests.yaml").read_bytes())
    (tmp_path / "reconcile.yaml").write_text("manifests: [manifests.yaml]\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "begins"),
    [
        ([], "1. first\n"),
        (["-o", "mermaid"], "flowchart LR\n"),
        (["-o", "svg"], "<svg "),
        (["--output", "json"], '{\n  "format_version": "1",\n  "nodes": ['),
    ],
)
def test_the_verb_needs_manifests_alone(
    project: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], begins: str
) -> None:
    assert run(["graph", *arguments]) == 0
    assert capsys.readouterr().out.startswith(begins)
    assert sorted(each.name for each in project.iterdir()) == ["manifests.yaml", "reconcile.yaml"]


def test_a_saved_plan_is_drawn_as_its_steps(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = plan_of("kinds/volume/fork_of_a_new_volume_waits_for_its_id")
    (project / "the.plan").write_bytes(dump_plan(plan))
    assert run(["graph", "--plan", "the.plan"]) == 0
    assert capsys.readouterr().out == (HERE / "a_plan_with_waits.txt").read_text(encoding="utf-8")
    assert run(["graph", "--plan", "the.plan", "manifests.yaml"]) == USAGE
    assert run(["graph", "--plan", "manifests.yaml"]) == 1


def test_the_old_option_names_the_new_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["graph", "--format", "svg"]) == USAGE
    assert "`--format svg` is `-o svg` now" in capsys.readouterr().err


def test_manifests_with_mistakes_are_not_drawn(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "manifests.yaml").write_text("kind: Volume\n", encoding="utf-8")
    assert run(["graph", "-o", "svg"]) == 1
    told = capsys.readouterr()
    assert "manifests.yaml:1:1" in "".join(ElementTree.fromstring(told.out).itertext())
    assert run(["graph", "-o", "mermaid"]) == 1
    assert "manifests.yaml:1:1" in capsys.readouterr().out


def test_nothing_is_a_graph_too() -> None:
    nothing = Graph("resource", "reference", ())
    assert render_graph(nothing) == "0 resources, 0 references, 0 levels.\n"
    assert render_mermaid(nothing) == "flowchart LR\n"
    assert ElementTree.fromstring(render_svg(nothing)).tag == f"{SVG}svg"
