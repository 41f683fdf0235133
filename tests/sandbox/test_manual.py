"""docs/sandbox.md names everything that there is. Source: the code."""

import json
import re
from pathlib import Path
from typing import get_args, get_type_hints

import click
import pytest

from reconciler.cli.sandbox import command
from reconciler.sandbox import control
from reconciler.sandbox.faults import Fault, read
from reconciler.sandbox.parts.machine_power import BY_HAND
from reconciler.sandbox.plugin import RunningSandbox
from reconciler.sandbox.switches import SWITCHES, default_of

MANUAL = (Path(__file__).parents[2] / "docs" / "sandbox.md").read_text(encoding="utf-8")


def test_each_option_is_described() -> None:
    options = [
        parameter
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.hidden and parameter.opts
    ]
    for option in options:
        assert f"`{option.opts[0]}" in MANUAL, option.opts


@pytest.mark.parametrize("name", SWITCHES)
def test_each_switch_has_its_line(name: str) -> None:
    switch = SWITCHES[name]
    (line,) = [line for line in MANUAL.splitlines() if line.startswith(f"| `{name}` |")]
    values, about, client = line.split(" | ")[1:]
    assert re.findall(r"`([^`]+)`", values)[0] == str(default_of(switch, extended=True))
    assert (about, client) == (switch.about, f"{switch.client} |")
    if switch.allowed:
        assert re.findall(r"`([^`]+)`", values) == [str(item) for item in switch.allowed]


def test_each_action_and_field_of_a_fault_is_described() -> None:
    section = MANUAL.partition("## Faults")[2].partition("\n## ")[0]
    for action in get_args(get_type_hints(Fault)["action"]):
        assert f"`{action}`" in section, action
    for field in Fault.model_fields:
        assert field == "stale" or field in section, field


def test_the_script_of_the_manual_is_one() -> None:
    (script,) = re.findall(r"```json\n(.*?)```", MANUAL, re.DOTALL)
    assert [fault.action for fault in read(json.loads(script)).faults] == ["status", "drop_after"]


def test_each_control_verb_and_method_is_described() -> None:
    verbs = MANUAL.partition("## Control verbs")[2].partition("\n## ")[0]
    for route in control.route.found:
        last = route.path.removeprefix(control.PREFIX).partition("/{")[0]
        assert last == "/" or f"{route.method} {last}" in verbs, route.path
    for verb in BY_HAND:
        assert f"`{verb}`" in verbs
    methods = [name for name in vars(RunningSandbox) if not name.startswith("_")]
    for name in methods:
        assert f"`{name}`" in MANUAL or f"reconcile_sandbox.{name}" in MANUAL, name
