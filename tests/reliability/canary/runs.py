"""One run of the real program with canaries in every place, and all that it leaves behind."""

import signal
import subprocess
import sys
import tempfile
import threading
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from json import dumps, loads
from pathlib import Path

from reconciler.secrets import age
from tests.age_keys import generate
from tests.cli import harness
from tests.cli.harness import Sandbox, environment
from tests.reliability.canary.forms import Leak, Scanner
from tests.state.doubles import make_state

ROOT = Path(__file__).parent.parent.parent.parent
PATIENCE_S = 60
VICTIM = (sys.executable, "-m", "tests.reliability.canary.victim")
_numbers = count(1)

# Characters that every notation writes in its own way, from the first to the last.
_ODD = 'q"7\\é+/={}~?>'


def canary(name: str) -> str:
    """A value that stands nowhere by chance. The same name gives the same value."""
    return f'{name}{_ODD}<&8 v{name[::-1]}?>"M{len(name)}'


ENV, FILE, OLD, LITERAL, WRONG, PASSWORD = map(canary, ("eNv", "fIle", "oLd", "lIteral", "wRong", "pAssw"))
AGE, SOPS, NEIGHBOUR, EXEC, SAID = map(canary, ("aGe", "sOps", "nEighbour", "eXec", "sAid"))
IDENTITY, RECIPIENT = generate()
TOKEN = canary("tOken").replace(" ", "_").replace("é", "e")  # a header's token is printable ASCII
HOST = canary("hOst").replace(" ", "_").replace("é", "e")
_HOOK_KEY = canary("hOok")
HOOK_SECRET = f"whsec_{b64encode(_HOOK_KEY.encode()).decode()}"
HOOK_PATH = "T0pAth-oF/aHook-v7Zq"
VALUES = {
    "the key of a notification": _HOOK_KEY,
    "the address of a notification": HOOK_PATH,
    "the variable": ENV,
    "the file": FILE,
    "the former value": OLD,
    "a literal in a manifest": LITERAL,
    "a wrong token": WRONG.replace(" ", "_").replace("é", "e"),
    "a password in an address": PASSWORD,
    "the token": TOKEN,
    "the token of a git host": HOST,
    "a value encrypted with age": AGE,
    "a value encrypted with sops": SOPS,
    "its neighbour": NEIGHBOUR,
    "a program's output": EXEC,
    "what a program says on stderr": SAID,
    "an age identity": IDENTITY.removeprefix("AGE-SECRET-KEY-"),
}


@contextmanager
def serving(folder: Path) -> Iterator[Sandbox]:
    """A platform over `folder`. That its command line holds the token is its documented interface."""
    options = ("--clock", "x600", "--profile", "extended", "--db", str(folder / "sandbox.db"))
    with (
        (folder / "sandbox.err").open("w") as errors,
        harness.serving(*options, token=TOKEN, stderr=errors) as sandbox,
    ):
        yield sandbox


@dataclass(slots=True)
class Run:
    """One process that has ended, or was killed. `leaks`: where (a file, stdout, …) and what."""

    name: str
    code: int
    out: str
    err: str
    leaks: list[tuple[str, Leak]] = field(default_factory=list)
    scanned: int = 0


class Workshop:
    """A project with secrets in an app of its own, and a directory for everything temporary.

    `verb` runs the program once. Each run is scanned as soon as it has ended: its output, its
    command lines, and every file that it wrote or that lies in the project.
    """

    def __init__(self, folder: Path, platform: Sandbox, scanner: Scanner) -> None:
        self.platform, self._scanner = platform, scanner
        self.app = platform.app(f"shop{next(_numbers)}")
        self.root = folder / "project"
        self.temporary = folder / "tmp"
        self._notes = folder / "notes"
        self._lines: set[bytes] = set()  # command lines of the last run
        (self.root / "manifests").mkdir(parents=True)
        self.temporary.mkdir()
        self.runs: list[Run] = []
        self.sources: set[Path] = set()  # they hold a value because a person put it there
        self.env = environment(
            platform.url,
            RECONCILE_TOKEN=TOKEN,
            TMPDIR=str(self.temporary),
            XDG_STATE_HOME=str(self.temporary / "home"),
            XDG_CACHE_HOME=str(self.temporary / "caches"),
            CANARY_NOTES=str(self._notes),
            SHOP_PASSWORD=ENV,
            GITHUB_TOKEN=HOST,
            RECONCILE_CAPABILITIES="extended",
            PYTHONFAULTHANDLER="1",
        )
        self.settings("manifests: [manifests]\n")
        make_state(self.root)
        self.source("password.txt", f"{FILE}\n")
        self.write(self.three_secrets())

    # --- what stands there ---

    def settings(self, text: str, *, holds_a_value: bool = False) -> None:
        path = self.root / "reconcile.yaml"
        path.write_text(text, encoding="utf-8")
        if holds_a_value:
            self.sources.add(path)

    def source(self, name: str, content: str | bytes) -> None:
        """A file that a secret is read from, beside the manifests."""
        path = self.root / "manifests" / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        self.sources.add(path)

    def write(self, text: str, *, holds_a_value: bool = False) -> None:
        path = self.root / "manifests" / "main.yaml"
        path.write_text(text, encoding="utf-8")
        if holds_a_value:
            self.sources.add(path)

    def secret(self, name: str, source: str) -> str:
        return (
            f"---\napiVersion: reconciler/v1\nkind: Secret\nmetadata: {{name: {name}, app: {self.app}}}\n"
            f"spec: {{value_from: {source}}}\n"
        )

    def volume(self, name: str = "data", size_gb: int = 3) -> str:
        return harness.volume(self.app, name, f"region: ams, size_gb: {size_gb}")

    def three_secrets(self) -> str:
        return (
            self.secret("FROM_ENV", "{env: SHOP_PASSWORD}")
            + self.secret("FROM_FILE", "{file: password.txt}")
            + self.secret("FROM_TEMPLATE", '{template: "user:${env:SHOP_PASSWORD}@host"}')
        )

    def every_source(self) -> str:
        """Secrets from all that has to be decrypted or run, and whatever that needs."""
        self.settings("manifests: [manifests]\nsecrets: {exec: [sh]}\n")
        self.source("value.age", age.encrypt(AGE.encode(), [RECIPIENT]))
        content = dumps({"value": SOPS, "neighbour": NEIGHBOUR}).encode()
        self.source("all.enc", b64encode(content))
        self.source("exec.txt", EXEC)
        self.source("said.txt", SAID)
        self.env |= {
            "RECONCILE_AGE_IDENTITY": IDENTITY,
            "SOPS_AGE_KEY": "any",
            "PATH": f"{ROOT / 'tests' / 'secrets'}:{self.env['PATH']}",
        }
        inline = age.encrypt(AGE.encode(), [RECIPIENT])
        return (
            self.secret("AGE", "{age: value.age}")
            + self.secret("INLINE", f"{{age: {dumps(inline)}}}")
            + self.secret("SOPS", "{sops: {file: all.enc, key: value}}")
            + self.secret("EXEC", '{exec: [sh, -c, "cd manifests; cat said.txt >&2; cat exec.txt"]}')
        )

    # --- runs ---

    def verb(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        python: Sequence[str] = (),
    ) -> Run:
        """Run a verb to its end."""
        with self._started(arguments, env or {}, python, subprocess.PIPE) as process:
            out, err = process.communicate(stdin, timeout=PATIENCE_S)
        return self._ended(arguments, process.returncode, out, err)

    def struck(self, *numbers: int, env: Mapping[str, str] | None = None) -> Run:
        """Run apply, wait until the platform's fault has taken hold, send the signals one after another."""
        command = ["-vv", "apply", "--auto-approve"]
        with self._started(command, env or {}, (), subprocess.DEVNULL) as process:
            while not self.platform.fault_taken():
                assert process.poll() is None, "the run has ended before it could be struck"
            for number in numbers:
                process.send_signal(number)
            out, err = process.communicate(timeout=PATIENCE_S)
        return self._ended([*command, *map(_signal_name, numbers)], process.returncode, out, err)

    @contextmanager
    def _started(
        self, arguments: Sequence[str], env: Mapping[str, str], python: Sequence[str], stdin: int
    ) -> Iterator["subprocess.Popen[str]"]:
        command = [VICTIM[0], *python, *VICTIM[1:], *arguments]
        self._notes.write_text("")
        with (
            subprocess.Popen(
                command,
                cwd=self.root,
                env={**self.env, **env},
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            ) as process,
            _command_lines(process.pid) as lines,
        ):
            self._lines = lines
            yield process

    def _ended(self, arguments: Sequence[str], code: int, out: str, err: str) -> Run:
        run = Run(" ".join(arguments), code, out, err)
        places = {"stdout": out.encode(), "stderr": err.encode(), "argv": b"\n".join(sorted(self._lines))}
        places["notes"] = self._notes.read_bytes()
        for path in sorted(self._written()):
            if path.is_file():
                places[str(path)] = path.read_bytes()
        for place, data in places.items():
            run.scanned += len(data)
            run.leaks += [(place, leak) for leak in self._scanner.leaks(data)]
        self.runs.append(run)
        return run

    def _written(self) -> set[Path]:
        """All files of the project and of its TMPDIR, and those that were written anywhere else."""
        whole = self._notes.read_text().rpartition("\n")[0]  # files may be too small for the last note
        noted = [loads(line).get("wrote") for line in whole.splitlines()]
        found = {Path(path) for path in noted if path and not path.startswith(("/dev/", "/proc/"))}
        for folder in (self.root, self.temporary, self._notes.with_name("notes.removed")):
            found |= set(folder.rglob("*"))
        return found - self.sources - {self._notes}


@contextmanager
def _command_lines(pid: int) -> Iterator[set[bytes]]:
    """Filled during the block with the command lines of the process `pid` and of its children."""
    lines: set[bytes] = set()
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.02):
            for each in _family(pid):
                try:
                    lines.add(Path(f"/proc/{each}/cmdline").read_bytes())
                except OSError:
                    continue  # it has ended

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield lines
    finally:
        over.set()
        watcher.join()


def _family(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(each for child in children for each in _family(int(child)))]


def _signal_name(number: int) -> str:
    return f"({signal.Signals(number).name})"


def repository_leaks(scanner: Scanner) -> list[tuple[str, Leak]]:
    """What stands in the recorded exchanges and the documents of the repository."""
    files = [path for folder in ("cassettes", "docs", "manifests") for path in (ROOT / folder).rglob("*")]
    return [
        (str(path.relative_to(ROOT)), leak)
        for path in sorted(files)
        if path.is_file()
        for leak in scanner.leaks(path.read_bytes())
    ]


def platform_leaks(folder: Path, scanner: Scanner) -> list[tuple[str, Leak]]:
    """What the platform over `folder` stores and says of values: no digest either that is not keyed.

    Only of a platform that was not told to repeat values: it stores what faults it was ordered.
    """
    return [
        (path.name, leak)
        for path in sorted(folder.glob("sandbox.*"))
        for leak in scanner.leaks(path.read_bytes())
    ]


@contextmanager
def workshop(platform: Sandbox, scanner: Scanner) -> Iterator[Workshop]:
    with tempfile.TemporaryDirectory() as folder:
        try:
            yield Workshop(Path(folder), platform, scanner)
        finally:
            platform.clear_faults()
