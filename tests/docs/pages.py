"""Documentation as programs: what a reader of a page sees is typed, in order, in an empty folder.

A `console` block holds commands (`$ …`, with further lines as bash would ask for them) and lines that must
come out, in that order; `…` stands for anything, and a command that shows nothing has to succeed. Of a
`git diff` each changed line must be shown. A block with a caption (`title="NAME"`) is written to that file.
Nothing else is run or written: a page hides nothing.
"""

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.demo.shop import stop

ROOT = Path(__file__).parents[2]
PORT = "8099"  # in the text; each run takes a free one in its place
_ENDED = re.compile(r"--- command ended with (\d+) ---\n", re.MULTILINE)
_FENCE = re.compile(r"(?P<indent> *)```(?P<language>\w*)(?: title=\"(?P<file>[^\"]+)\")?")
_HEREDOC = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?")
_CHANGED = re.compile(r"^[-+](?!--|\+\+).*", re.MULTILINE)  # in a diff
_IDS = re.compile(r"\b(vol|vs)_[a-z0-9]+")


@dataclass
class Step:
    """One command, and the lines that it shows."""

    command: str
    line: int
    shown: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Block:
    """One fenced block; `file`: what it is to be written to."""

    language: str
    text: str
    line: int
    file: str = ""


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def items(page: Path) -> Iterator[Block]:
    """The page's blocks, in order."""
    lines = iter(enumerate(page.read_text(encoding="utf-8").splitlines(), start=1))
    for number, line in lines:
        if fence := _FENCE.fullmatch(line):
            text = []
            for _, inner in lines:
                if inner.strip() == "```":
                    break
                text.append(inner.removeprefix(fence["indent"]))
            yield Block(fence["language"], "\n".join(text) + "\n", number, fence["file"] or "")


def steps(page: Path) -> list[Step]:
    """What is run for the page, in order."""
    found: list[Step] = []
    for item in items(page):
        if item.file:
            folder = shlex.quote(str(Path(item.file).parent))
            name = shlex.quote(item.file)
            found.append(
                Step(
                    f"mkdir -p {folder} && cat > {name} <<'END-OF-BLOCK'\n{item.text}END-OF-BLOCK", item.line
                )
            )
        elif item.language == "console":
            found += _commands(item)
    return found


def sections(page: Path) -> dict[str, list[Step]]:
    """By title, what is run for each section alone: what stands before the first one, and its own."""
    lines = page.read_text(encoding="utf-8").splitlines()
    starts = [(number, line[3:]) for number, line in enumerate(lines, start=1) if line.startswith("## ")]
    ends = [number for number, _ in starts[1:]] + [len(lines) + 1]
    found = steps(page)
    before = [step for step in found if step.line < starts[0][0]]
    return {
        title: before + [step for step in found if start < step.line < end]
        for (start, title), end in zip(starts, ends, strict=True)
    }


def _commands(block: Block) -> Iterator[Step]:
    step: Step | None = None
    for number, line in enumerate(block.text.splitlines(), start=block.line + 1):
        if step is not None and _goes_on(step.command):
            step.command += f"\n{line}"
        elif line.startswith("$ "):
            if step is not None:
                yield step
            step = Step(line[2:], number)
        else:
            assert step is not None, f"line {number} shows output before any command"
            step.shown.append(line)
    if step is not None:
        yield step


def _goes_on(command: str) -> bool:
    """Whether bash would ask for another line."""
    here = _HEREDOC.search(command)
    if here:
        return here[1] not in command.splitlines()[1:]
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return True
    return command.endswith("\\")


def run(
    page: Path,
    directory: Path,
    *,
    section: str = "",
    programs: str = str(Path(sys.executable).parent),
    substitutes: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> list[str]:
    """Run the page, or one of its `sections`; what does not come out as it says, as messages.

    `programs`: the folders of the `reconcile` that is installed, as in PATH. `substitutes` replace text that
    stands for what only readers have; `environment` adds to the page's own.
    """
    todo = sections(page)[section] if section else steps(page)
    with socket.create_server(("127.0.0.1", 0)) as free:
        replaced = {PORT: str(free.getsockname()[1]), **(substitutes or {})}
    activate = directory / ".venv/bin/activate"
    activate.parent.mkdir(parents=True)
    activate.write_text(f'PATH="{programs}:$PATH"\n')
    if page.name == "README.md":
        shutil.copytree(ROOT / "manifests", directory / "manifests")
    ended = 'echo "--- command ended with $? ---"'
    script = "\n".join(f"{_replace(step.command, replaced)}\n{ended}" for step in todo)
    # A background job's first line and its end are awaited, as a reader would.
    script = re.sub(r" &\n", " &\nuntil_it_listens\n", script)
    script = re.sub(r"^kill (%\d)$", r"kill \1; wait \1", script, flags=re.MULTILINE)
    waiting = (
        "until_it_listens() { while kill -0 $! && "
        f"! curl -s http://127.0.0.1:{replaced[PORT]}/_sandbox/clock; do :; done; }}"
    )
    with (directory / ".printed").open("w+b") as output:  # a pipe would stay open with the jobs of the page
        process = subprocess.Popen(
            ["bash", "-c", f"set -m\n{waiting}\n{script}"],
            cwd=directory,
            env={**_environment(directory, programs), **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            process.wait(timeout=300)
        finally:
            _end_session(process.pid)
            stop(directory)  # the demo's platform outlives the shell
        output.seek(0)
        printed = output.read().decode()
    outputs = _ENDED.split(printed)[:-1]
    if len(outputs) != 2 * len(todo):
        return [f"ended in the middle:\n{printed}"]
    return [
        f"{page.name}:{step.line}: $ {step.command}\n{problem}\nbut printed\n{output}"
        for step, output, code in zip(todo, outputs[::2], outputs[1::2], strict=True)
        if (problem := _problem(step, [_replace(line, replaced) for line in step.shown], output, code))
    ]


def _problem(step: Step, shown: list[str], printed: str, code: str) -> str:
    """What is not as the page says; a command that shows nothing has to succeed."""
    if not shown:
        return "" if code == "0" else f"should succeed, and ended with {code}"
    if missing := _missing(shown, printed.splitlines()):
        return f"should show\n  {missing}"
    if step.command.startswith("git diff") and (hidden := _missing(_CHANGED.findall(printed), shown)):
        return f"changes what the page does not show\n  {hidden}"
    return ""


def _environment(directory: Path, programs: str) -> dict[str, str]:
    """As on a machine of nobody: no settings of ours, and none of whoever runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RECONCILE_", "GIT_"))}
    roles = [f"GIT_{who}_{what}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")]
    return {
        **kept,
        **dict.fromkeys(roles, "ann@example.com"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "HOME": str(directory),
        "NO_COLOR": "1",
        "PATH": f"{programs}{os.pathsep}{kept['PATH']}",
    }


def _end_session(leader: int) -> None:
    """Whatever a page left running in the background ends with it: each job is a process group of its own."""
    listed = subprocess.run(["ps", "-eo", "pid=,sess="], capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():
        pid, session = map(int, line.split())
        if session == leader:
            os.kill(pid, signal.SIGKILL)


def _replace(text: str, replaced: Mapping[str, str]) -> str:
    for old, new in replaced.items():
        text = text.replace(old, new)
    return text


def _missing(shown: list[str], came: list[str]) -> str:
    """The first line shown that did not come after those before it; empty when all did."""
    rest = iter(came)
    for line in shown:
        pattern = re.compile(".*".join(map(re.escape, _normal(line).split("…"))))
        if line.strip() != "…" and not any(pattern.fullmatch(_normal(each)) for each in rest):
            return line
    return ""


def _normal(line: str) -> str:
    """Without what differs from run to run: ids and spaces around a line."""
    return _IDS.sub(r"\1_ID", line).strip()
