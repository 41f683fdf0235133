"""Prometheus' own tool takes the metrics and the alerts of the documentation."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from reconciler.controller.metrics import text
from tests.controller.test_web import VIEW
from tests.docs import pages

PROMTOOL = shutil.which("promtool")
PAGE = pages.ROOT / "docs/how-to/controller.md"

pytestmark = pytest.mark.skipif(PROMTOOL is None and "CI" not in os.environ, reason="there is no promtool")


def alerts() -> str:
    (found,) = (block.text for block in pages.items(PAGE) if block.file == "alerts")
    return found


def promtool(*arguments: str, given: str = "") -> tuple[int, str]:
    assert PROMTOOL is not None
    done = subprocess.run(
        [PROMTOOL, "check", *arguments], input=given, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_the_alerts_of_the_page_are_rules(tmp_path: Path) -> None:
    (tmp_path / "alerts.yaml").write_text(alerts(), encoding="utf-8")
    code, told = promtool("rules", str(tmp_path / "alerts.yaml"))
    assert (code, "SUCCESS: 5 rules found" in told) == (0, True), told


def test_the_metrics_keep_the_conventions() -> None:
    assert promtool("metrics", given=text([VIEW])) == (0, "")


def test_the_page_names_each_metric_and_its_alerts_no_other() -> None:
    shown = {line.split("{")[0] for line in text([VIEW]).splitlines() if not line.startswith("#")}
    assert set(re.findall(r"`(reconciler_\w+)", PAGE.read_text(encoding="utf-8"))) == shown
    assert set(re.findall(r"reconciler_\w+", alerts())) <= shown
