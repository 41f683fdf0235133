"""The search for codes misses none: each way to write one down is found, and one that is computed is said."""

from pathlib import Path
from textwrap import dedent

import pytest

from tests.explain.codes import find_codes

IMPORTS = "from reconciler.core.diagnostics import UNKNOWN, Diagnostic, error, warning\n"


def codes_in(folder: Path, source: str) -> list[str]:
    (folder / "core").mkdir(exist_ok=True)
    (folder / "core/diagnostics.py").write_text('UNKNOWN = "unknown"\n', encoding="utf-8")
    (folder / "module.py").write_text(IMPORTS + dedent(source), encoding="utf-8")
    return sorted(find_codes(folder))


@pytest.mark.parametrize(
    "source",
    [
        'error("unknown", "message")',
        'warning("unknown", "message")',
        'Diagnostic("unknown", Severity.INFO, "message")',
        'error(UNKNOWN, "message")',
        'OWN = "unknown"\nerror(OWN, "message")',
        """
        def remark(code, message):
            return Diagnostic(code, Severity.INFO, message)
        remark("unknown", "message")
        """,
        """
        def remark(self, message, code):
            return error(code, message)
        remark(this, "message", "unknown")
        """,
        'report = error if needed else warning\nreport("unknown", "message")',
    ],
)
def test_a_code_is_found(tmp_path: Path, source: str) -> None:
    assert codes_in(tmp_path, source) == ["unknown"]


def test_both_codes_of_a_choice_are_found(tmp_path: Path) -> None:
    source = """
    report, code = (error, UNKNOWN) if made else (warning, "incomplete")
    report(code, "message")
    """
    assert codes_in(tmp_path, source) == ["incomplete", "unknown"]


@pytest.mark.parametrize(
    "source",
    ['error(f"no-{thing}", "message")', 'error(codes[0], "message")', 'error(code="x", message="y")'],
)
def test_a_code_that_is_not_written_down_is_an_error(tmp_path: Path, source: str) -> None:
    with pytest.raises(ValueError, match=r"module.py:2"):
        codes_in(tmp_path, source)


def test_what_is_no_diagnostic_is_passed_over(tmp_path: Path) -> None:
    assert codes_in(tmp_path, 'log.error("step.failed")\nparser.error("text")') == []
