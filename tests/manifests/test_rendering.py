"""Diagnostics as text and as JSON."""

from reconciler.core.diagnostics import Diagnostic, Severity, Span, error, hide, warning
from reconciler.reports.diagnostics import render
from tests.documents import diagnostic_documents

SHRINK = error(
    "volume-shrink",
    "volume `data` cannot shrink from 20 GB to 10 GB",
    Span("manifests/orders.yaml", 7, 12, 14),
    label="the live size is 20 GB",
    help="set `size_gb: 20`, or create a new volume and move the data",
)


def drawn(problem: Diagnostic, source: str | None) -> list[str]:
    return render([problem], lambda _file, _line: source).splitlines()


def caret_under(source: str, column: int, width: int) -> tuple[str, str]:
    problem = error("code", "message", Span("a.yaml", 1, column, column + width))
    _, _, line, caret = drawn(problem, source)
    return line.removeprefix(" 1 | "), caret.removeprefix("   | ")


def test_a_diagnostic_looks_as_the_style_guide_shows() -> None:
    assert render([SHRINK], lambda _file, _line: "  size_gb: 10") == (
        "error[volume-shrink]: volume `data` cannot shrink from 20 GB to 10 GB\n"
        "  --> manifests/orders.yaml:7:12\n"
        " 7 |   size_gb: 10\n"
        "   |            ^^ the live size is 20 GB\n"
        "   = help: set `size_gb: 20`, or create a new volume and move the data\n"
    )


def test_an_empty_line_stands_between_two() -> None:
    text = render([warning("a", "one"), error("b", "two")], lambda _file, _line: None)
    assert text == "warning[a]: one\n\nerror[b]: two\n"
    assert render([], lambda _file, _line: None) == ""


def test_a_hidden_line_is_never_asked_for() -> None:
    def read_line(file: str, line: int) -> str:
        raise AssertionError("the line may hold a secret")

    text = render([hide(SHRINK)], read_line)
    assert " 7 | (not shown: it may hold a secret)\n   = note: the live size is 20 GB\n" in text


def test_without_a_source_line_the_label_becomes_a_note() -> None:
    assert drawn(SHRINK, None)[1:3] == [
        "  --> manifests/orders.yaml:7:12",
        "   = note: the live size is 20 GB",
    ]


def test_notes_and_help_of_several_lines_are_indented() -> None:
    problem = Diagnostic("a", Severity.INFO, "message", notes=("one\ntwo",), help="three")
    assert drawn(problem, None) == ["info[a]: message", " = note: one", "         two", " = help: three"]


def test_the_caret_follows_tabs_wide_and_combined_characters() -> None:
    assert caret_under("\ta: x", 5, 1) == ("    a: x", "       ^")
    assert caret_under("漢字: x", 5, 1) == ("漢字: x", "      ^")
    assert caret_under("a: 漢字", 4, 2) == ("a: 漢字", "   ^^^^")
    assert caret_under("e\u0301: x", 5, 1)[1] == "   ^"
    assert caret_under("👩\u200d🚀: x", 6, 1)[1] == "    ^"


def test_a_long_line_is_clipped_around_the_caret() -> None:
    line, caret = caret_under("x" * 300 + "HERE" + "y" * 300, 301, 4)
    assert len(line) <= 102
    start, end = caret.index("^"), len(caret)
    assert line[start:end] == "HERE"
    assert line[0] == line[-1] == "…"


def test_a_long_span_is_clipped_too() -> None:
    line, caret = caret_under("a: " + "x" * 500, 4, 500)
    assert len(line) <= 102
    assert set(caret.strip()) == {"^"}


def test_a_place_behind_the_end_of_the_line_gets_a_caret() -> None:
    assert caret_under("region:", 9, 0) == ("region:", "       ^")


def test_control_and_direction_characters_are_made_visible() -> None:
    problem = error("a", "name `\x1b[31m\u202e`", Span("a\x07.yaml", 1, 1, 2))
    text = "\n".join(drawn(problem, "x\x9b \u2066y"))
    assert "\\x1b[31m\\u202e" in text
    assert "a\\x07.yaml" in text
    assert "x\\x9b \\u2066y" in text


def test_json_gives_the_position_or_null() -> None:
    assert diagnostic_documents([SHRINK, warning("a", "message")]) == [
        {
            "code": "volume-shrink",
            "severity": "error",
            "message": "volume `data` cannot shrink from 20 GB to 10 GB",
            "file": "manifests/orders.yaml",
            "line": 7,
            "column": 12,
            "help": "set `size_gb: 20`, or create a new volume and move the data",
        },
        {
            "code": "a",
            "severity": "warning",
            "message": "message",
            "file": None,
            "line": None,
            "column": None,
        },
    ]
