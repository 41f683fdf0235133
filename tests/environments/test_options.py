"""Options that say which environment: none is taken for another, and advised commands carry them."""

import json
import os
import re
from collections.abc import Iterator

import click
import pytest

from reconciler.cli.command_line import of_this_run
from reconciler.cli.main import cli
from reconciler.core.advice import RunOptions
from reconciler.core.advice import command as advised
from tests.cli.harness import TOKEN, Sandbox
from tests.inprocess import Command, volume


def commands(group: click.Group = cli, path: str = "") -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(click.Context(group)):
        found = group.get_command(click.Context(group), name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from commands(found, f"{path}{name} ")
        else:
            yield f"{path}{name}", found


@pytest.mark.parametrize(("verb", "command"), [*commands()], ids=[verb for verb, _ in commands()])
def test_an_advised_command_gets_those_options_of_the_run_that_it_takes(
    verb: str, command: click.Command
) -> None:
    takes = {option for param in command.get_params(click.Context(command)) for option in param.opts}
    if verb not in ("validate", "build", "graph"):  # they tell of manifests: nothing is read or written there
        run = RunOptions("prod", "sqlite:of prod.db", sandbox=True)
        line = str(advised(*verb.split(), "Volume/shop/data").with_options(run))
        given = " --env prod --state 'sqlite:of prod.db'" if "--state" in takes else ""
        given += " --sandbox" if "--sandbox" in takes else ""
        assert line == f"reconcile {verb}{given} Volume/shop/data"


def test_the_options_of_a_run_are_those_of_its_command_line() -> None:
    with click.Context(cli) as context:
        context.params |= {"env": "prod", "state_url": "sqlite:of prod.db", "sandbox": True}
        assert of_this_run() == RunOptions("prod", "sqlite:of prod.db", sandbox=True)


def test_an_advised_command_never_repeats_a_state_that_may_hold_a_password() -> None:
    with click.Context(cli) as context:
        context.params["state_url"] = "postgres://reconcile:hunter2@db/state"
        assert str(advised("plan").with_options(of_this_run())) == "reconcile plan"


@pytest.mark.parametrize("option", ["--env", "--env=", "--state", "--ref", "--changed-since"])
def test_an_empty_option_is_refused_before_anything_is_read(reconcile: Command, option: str) -> None:
    reconcile.write("manifests/data.yaml", volume())
    reconcile.variables["RECONCILE_ENV"] = "prod"
    given = option if option.endswith("=") else f"{option} ''"
    told = reconcile(f"plan {given}", code=64).err
    assert f"the value of {option.rstrip('=')} is empty" in told


def test_empty_options_that_would_be_passed_over_are_refused(reconcile: Command) -> None:
    for line in (
        "apply --auto-approve --env ''",
        "import --app ''",
        "import --out '' shop",
        "state list --state ''",
        "secret fingerprint --state ''",
        "resolve Volume/shop/data --adopt ''",
        "state forget --unclaimed ''",
        "provider check http://127.0.0.1:9 --only ''",
    ):
        assert " is empty" in reconcile(line, code=64).err, line


def test_an_empty_variable_is_no_environment(reconcile: Command) -> None:
    reconcile.write("manifests/data.yaml", volume())
    reconcile.variables["RECONCILE_ENV"] = ""
    assert reconcile("validate").code == 0
    assert reconcile("state init").code == 0
    assert (reconcile.root / ".reconcile/state.db").exists()


def test_a_printed_command_acts_on_the_environment_of_the_run(reconcile: Command, sandbox: Sandbox) -> None:
    """Run as it is printed, it must not write the values of another environment into the manifests."""
    app, prod = sandbox.app("shop"), sandbox.app("shop-prod")
    reconcile.variables |= {"RECONCILE_BASE_URL": sandbox.url, "RECONCILE_TOKEN": TOKEN}
    manifest = reconcile.write("manifests/all.yaml", volume("data") + volume("logs"))
    overlay = f"'*/shop/*': {{metadata: {{app: {prod}}}}}\nVolume/shop/logs: {{spec: {{size_gb: 12}}}}\n"
    reconcile.write("overlays/prod/a.yaml", overlay)
    reconcile("state init --env base")
    reconcile("state init --env prod")
    reconcile("apply --env base --auto-approve")
    reconcile("apply --env prod --auto-approve")
    for where, size_gb in ((app, 33), (prod, 77)):
        for live in sandbox.volumes(where):
            sandbox.edit_volume(live["id"], size_gb=size_gb)
    told = reconcile("drift --env prod --accept manifests overlays/../manifests", code=1).out
    (hint,) = re.findall("^The others alone: reconcile (.*)$", told, re.MULTILINE)
    assert hint == f"drift --env prod --accept manifests overlays/../manifests Volume/{prod}/data"
    reconcile(hint, code=None)
    assert manifest.read_text() == volume("data", size_gb=77) + volume("logs")

    state = "--state 'sqlite:.reconcile/prod/state.db'"
    logs = next(each for each in sandbox.volumes(prod) if each["name"] == "logs")
    sandbox.call("DELETE", f"/v1/apps/{prod}/volumes/{logs['id']}")
    ended = reconcile(f"plan --env prod {state}", code=None)
    command = f"`reconcile state forget --env prod {state.replace(chr(39), '')} Volume/{prod}/logs`"
    assert command in ended.err
    in_json = json.loads(reconcile(f"plan --env prod {state} -o json", code=None).out)
    assert any(command in each.get("help", "") for each in in_json["diagnostics"])


def test_the_command_that_runs_a_saved_plan_names_its_environment(
    reconcile: Command, sandbox: Sandbox
) -> None:
    sandbox.app("other")
    reconcile.variables |= {"RECONCILE_BASE_URL": sandbox.url, "RECONCILE_TOKEN": TOKEN}
    reconcile.write("manifests/all.yaml", volume("data", app="other"))
    reconcile.write("overlays/prod/a.yaml", "# nothing differs\n")
    reconcile("state init --env base")
    reconcile("state init --env prod")
    told = reconcile("plan --env prod --out 'a plan'").err
    assert "Saved the plan: reconcile apply --env prod --plan 'a plan'" in told
    told = reconcile("plan --env base --out saved.plan").err
    assert "Saved the plan: reconcile apply --env base --plan saved.plan" in told


def test_notes_and_what_doctor_says_of_a_state_name_the_environment(
    reconcile: Command, sandbox: Sandbox
) -> None:
    reconcile.variables |= {"RECONCILE_BASE_URL": sandbox.url, "RECONCILE_TOKEN": TOKEN}
    reconcile.write("manifests/all.yaml", volume("data", app=sandbox.app("noted")))
    reconcile.write("overlays/prod/a.yaml", "# nothing differs\n")
    reconcile("state init --env prod")
    reconcile("apply --env prod --auto-approve")
    private = reconcile.root / ".reconcile"
    (private / "prod").rename(private / "away")
    at_home = os.environ["XDG_STATE_HOME"]
    reconcile.variables["XDG_STATE_HOME"] = str(reconcile.root / "other-home")
    reconcile("state init --env prod")
    reconcile.variables["XDG_STATE_HOME"] = at_home
    advised = "`reconcile state init --env prod` says so"
    assert advised in reconcile("plan --env prod").err
    assert advised in reconcile("doctor --env prod").out


@pytest.mark.parametrize("line", ["{} state list", "state {} list", "state list {}"])
def test_an_option_of_several_verbs_is_taken_before_and_after_the_verb(reconcile: Command, line: str) -> None:
    reconcile.write("overlays/prod/.keep", "")
    missing = json.loads(reconcile(line.format("--env prod -o json --state sqlite:x.db"), code=1).out)
    assert "there is no state at sqlite:x.db" in missing["diagnostics"][0]["message"]
    assert "No such option '--reason'" in reconcile(line.format("--reason=why"), code=64).err
