"""What users put the program into their jobs with. What needs a package registry: `.ci/parts`."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ci.try_parts import action, dockerfile
from tests.docs.pages import ROOT

HOSTILE = ["$(touch hacked)", "`touch hacked`", '"; touch hacked; "', "a b", "*", "--flag=$HOME", "'", "\\"]


def documents(file: str) -> list[Any]:
    return list(yaml.safe_load_all((ROOT / file).read_text()))


def test_nothing_that_a_caller_passes_in_stands_in_a_script_of_the_action() -> None:
    for step in action()["runs"]["steps"]:
        assert "${{" not in step["run"]
        assert "uses" not in step  # no code of others that a tag could replace


def run_step(folder: Path, verb: str, arguments: str) -> tuple[int, list[str]]:
    """The exit code of the action's last step, and the words that `reconcile` got."""
    tool = folder / "reconcile"
    tool.write_text(
        "#!/usr/bin/env python3\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\nsys.exit(2)\n"
    )
    tool.chmod(0o755)
    step = action()["runs"]["steps"][-1]
    assert set(step["env"]) == {"VERB", "ARGUMENTS"}
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=folder,
        env={
            "PATH": f"{folder}:{os.environ['PATH']}",
            "VERB": verb,
            "ARGUMENTS": arguments,
            "GITHUB_OUTPUT": str(folder / "output"),
        },
        capture_output=True,
        text=True,
    )
    assert (folder / "output").read_text() == f"exit-code={done.returncode}\n"
    return done.returncode, json.loads(done.stdout)


def test_the_action_hands_on_each_line_as_one_word_and_the_exit_code(tmp_path: Path) -> None:
    code, words = run_step(tmp_path, "plan", "\n".join(["", *HOSTILE, ""]))
    assert (code, words) == (2, ["plan", *HOSTILE])
    assert not (tmp_path / "hacked").exists()


@pytest.mark.parametrize("verb", HOSTILE)
def test_a_verb_is_one_word(tmp_path: Path, verb: str) -> None:
    assert run_step(tmp_path, verb, "") == (2, [verb])
    assert not (tmp_path / "hacked").exists()


def test_the_component_passes_its_inputs_through_variables_and_checks_them() -> None:
    header, jobs = documents("templates/reconcile/template.yml")
    inputs = header["spec"]["inputs"]
    text = (ROOT / "templates/reconcile/template.yml").read_text()
    used = set(re.findall(r"\$\[\[ *inputs\.([\w-]+) *\]\]", text))
    assert used == set(inputs)
    assert not re.search(
        r"\$\[\[", "\n".join(line for job in jobs.values() for line in job.get("script", ()))
    )
    for value in inputs.values():
        assert value["description"]
        assert "regex" in value or value["type"] == "number"
    for name, job in jobs.items():
        if not name.startswith("."):
            assert job["extends"] == ".reconcile"
    assert re.fullmatch(inputs["image"]["regex"], f"registry.example.com/reconcile@sha256:{'a' * 64}")
    assert not re.fullmatch(inputs["image"]["regex"], "registry.example.com/reconcile:latest")
    for bad in ("$(id)", "-x", "a b", "a;b", "/etc", "`id`"):
        assert not re.fullmatch(inputs["manifests"]["regex"], bad)


def test_what_uv_installs_is_compiled() -> None:
    """uv leaves that to the first start; with PYTHONDONTWRITEBYTECODE, every start does it again."""
    for name in ("action.yml", "Dockerfile"):
        text = (ROOT / name).read_text().replace("\\\n", " ")
        (installs,) = (line for line in text.splitlines() if 'uv" sync' in line or "uv sync" in line)
        assert "--compile-bytecode" in installs, name


def test_the_hook_checks_everything_whatever_was_changed() -> None:
    ((hook,),) = documents(".pre-commit-hooks.yaml")
    assert hook["entry"] == "reconcile validate"
    assert (hook["pass_filenames"], hook["language"], hook["types"]) == (False, "python", ["yaml"])


def test_the_image_is_pinned_small_and_of_no_superuser() -> None:
    lines = list(dockerfile())
    words = [word for word, _ in lines]
    base = next(rest for word, rest in lines if word == "ARG")
    assert re.fullmatch(r"BASE=python:\d+\.\d+\.\d+-slim\S*", base)
    assert [rest for word, rest in lines if word == "FROM"] == ["${BASE} AS build", "${BASE}"]
    assert "USER 10001:10001" in [" ".join(line) for line in lines[words.index("USER") :]]
    assert words.index("USER") < words.index("ENTRYPOINT")
    assert json.loads(dict(lines)["ENTRYPOINT"]) == ["reconcile"]
    runs = [rest for word, rest in lines if word == "RUN"]
    assert any("--compile-bytecode" in run and "--locked" in run for run in runs)
    assert "ADD" not in words
    copied = {each for word, rest in lines if word == "COPY" for each in rest.split()[:-1] if each[0] != "-"}
    kept = {line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines()}
    assert {each for each in copied if not each.startswith("/")} <= kept


def test_no_page_installs_what_strangers_call_by_our_name() -> None:
    """On PyPI both names belong to other projects."""
    bare = re.compile(r"(?:pip|pipx) install '?reconciler(?!\S* @)|uvx reconcile")
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    found = [
        (page.name, each) for page in pages for each in bare.findall(page.read_text().replace("\n", " "))
    ]
    assert {name for name, _ in found} <= {"ci.md"}  # where it warns of that
    assert len(found) <= 2


def test_uv_is_of_one_version_wherever_it_is_fetched() -> None:
    places = ("action.yml", "Dockerfile", ".ci/run", "README.md")
    found = {name: re.findall(r"uv==([\d.]+)", (ROOT / name).read_text()) for name in places}
    assert len({version for versions in found.values() for version in versions}) == 1, found
    assert all(found.values())
