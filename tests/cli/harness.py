"""Real processes: a sandbox that serves, projects in directories of their own, `reconcile` run in them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import pytest

from tests.cli.warm import run_warm
from tests.state.doubles import word_of

TOKEN = "sandbox"
PATIENCE_S = 60  # for a process that should end by itself; only a bug uses it up
MUTATIONS = ("POST", "PUT", "PATCH", "DELETE")

RECONCILE = (sys.executable, "-m", "reconciler")


@dataclass(frozen=True, slots=True)
class Ran:
    """A finished process."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """stdout, which must be exactly one JSON document."""
        return json.loads(self.out)

    def outcomes(self) -> dict[str, str]:
        """Outcomes by step, from the JSON of an apply."""
        return {result["step"]: result["outcome"] for result in self.json["results"]}

    def actions(self) -> dict[str, str]:
        """Actions by address, from the JSON of a plan."""
        return {change["address"]: change["action"] for change in self.json["changes"]}


class Sandbox:
    """A stand-alone sandbox process, by its control verbs."""

    def __init__(self, url: str, token: str = TOKEN) -> None:
        self.url, self._token = url, token
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._connection = HTTPConnection(parts.hostname, parts.port, timeout=PATIENCE_S)

    def close(self) -> None:
        self._connection.close()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """One request, the `/v1` ones with the token. The answer must be a success."""
        headers = {"authorization": f"Bearer {self._token}", "content-type": "application/json"}
        self._connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = self._connection.getresponse()
        text = answer.read()
        self._connection.close()  # the server ends idle ones, at a moment that nobody is told of
        assert 200 <= answer.status < 300, text
        return json.loads(text)

    def app(self, name: str) -> str:
        self.call("POST", "/_sandbox/apps", {"name": name})
        return name

    def machine(self, app: str, *volumes: str) -> str:
        found: str = self.call("POST", "/_sandbox/machines", {"app": app, "volumes": list(volumes)})["id"]
        return found

    def fault(self, method: str, path: str, action: str, **details: Any) -> None:
        self.call("POST", "/_sandbox/faults", {"method": method, "path": path, "action": action, **details})

    def clear_faults(self) -> None:
        self.call("DELETE", "/_sandbox/faults")

    def switch(self, **switches: Any) -> None:
        self.call("POST", "/_sandbox/switches", switches)

    def advance(self, seconds: float) -> None:
        self.call("POST", "/_sandbox/clock", {"advance_s": seconds})

    def edit_volume(self, id: str, **fields: Any) -> None:
        self.call("PATCH", f"/_sandbox/world/volumes/{id}", fields)

    def edit_cluster(self, id: str, **fields: Any) -> None:
        self.call("PATCH", f"/_sandbox/world/clusters/{id}", fields)

    def make_volume(self, app: str, name: str, **fields: Any) -> str:
        """A volume made by somebody else."""
        body = {"name": name, "region": "ams", "size_gb": 3, **fields}
        found: str = self.call("POST", f"/v1/apps/{app}/volumes", body)["id"]
        return found

    def volumes(self, app: str) -> list[dict[str, Any]]:
        return [each for each in self.call("GET", "/_sandbox/world")["volumes"] if each["app"] == app]

    def volume(self, app: str) -> dict[str, Any]:
        """The app's only volume."""
        (found,) = self.volumes(app)
        return found

    def clusters(self, name: str) -> list[dict[str, Any]]:
        return [each for each in self.call("GET", "/_sandbox/world")["clusters"] if each["name"] == name]

    def secrets(self, app: str) -> list[dict[str, Any]]:
        return [each for each in self.call("GET", "/_sandbox/world")["secrets"] if each["app"] == app]

    def snapshots(self, app: str) -> list[dict[str, Any]]:
        return [each for each in self.call("GET", "/_sandbox/world")["snapshots"] if each["app"] == app]

    @contextmanager
    def recording(self) -> Iterator[list[tuple[str, str]]]:
        """Filled, at the end of the block, with (method, path) of the requests since its beginning."""
        requests: list[tuple[str, str]] = []
        before = self._log(0)
        last = before[-1]["seq"] if before else 0
        yield requests
        requests += [(entry["method"], entry["path"]) for entry in self._log(last)]

    def mutations_of(self, app: str) -> list[tuple[str, str]]:
        """(method, path after the app's) of all mutations of `app` so far."""
        prefix = f"/v1/apps/{app}/"
        return [
            (entry["method"], entry["path"].removeprefix(prefix))
            for entry in self._log(0)
            if entry["method"] in MUTATIONS and entry["path"].startswith(prefix)
        ]

    def seen(self, method: str, path_part: str) -> bool:
        """Whether such a request was carried out already, answered or not."""
        return any(entry["method"] == method and path_part in entry["path"] for entry in self._log(0))

    def fault_taken(self) -> bool:
        """Whether all faults have hit a request."""
        return not self.call("GET", "/_sandbox/faults")

    def _log(self, since: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.call("GET", f"/_sandbox/log?since={since}")
        return found


@contextmanager
def serving(*options: str, token: str = TOKEN, stderr: IO[str] | None = None) -> Iterator[Sandbox]:
    """A sandbox process for the block."""
    command = [*RECONCILE, "sandbox", "--port", "0", "--until-stdin-closes", "--token", token, *options]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening on "), line
        sandbox = Sandbox(line.removeprefix("listening on ").strip(), token)
        try:
            yield sandbox
        finally:
            sandbox.close()
            process.stdin.close()


@dataclass(slots=True)
class Running:
    """A process that is still running."""

    process: "subprocess.Popen[str]"

    def until(self, condition: Callable[[], bool]) -> None:
        """Ask again and again until `condition` holds; the process must not end before."""
        while not condition():
            if self.process.poll() is not None:
                assert condition(), self.ended()

    def until_told(self, text: str) -> None:
        """Read stderr up to the line that holds `text`."""
        assert self.process.stderr is not None
        assert any(text in line for line in self.process.stderr)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        assert self.ended().code == -signal.SIGKILL

    def ended(self) -> Ran:
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return Ran(self.process.returncode, out, err)


@dataclass(slots=True)
class Project:
    """A directory with manifests, and the environment in which verbs run there."""

    root: Path
    env: dict[str, str] = field(default_factory=dict)

    def write(self, text: str, name: str = "manifests/main.yaml") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def remove(self, name: str = "manifests/main.yaml") -> None:
        (self.root / name).unlink()

    def run(
        self,
        *arguments: str,
        code: int | None = 0,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        cwd: Path | None = None,
    ) -> Ran:
        """Run a verb to its end; `code` is the exit code that it must have (None: any)."""
        finished = run_warm(
            arguments,
            root=cwd or self.root,
            env={**self.env, **(env or {})},
            stdin=stdin,
            patience_s=PATIENCE_S,
        )
        ran = Ran(*finished)
        assert "Traceback" not in ran.err, ran.err
        assert code is None or ran.code == code, f"exit {ran.code}, not {code}\n{ran.out}\n{ran.err}"
        return ran

    def enter(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Run verbs in this process from now on, which costs less than a process for each."""
        monkeypatch.chdir(self.root)
        for name, value in self.env.items():
            monkeypatch.setenv(name, value)

    def json(self, *arguments: str, code: int | None = 0, env: Mapping[str, str] | None = None) -> Ran:
        return self.run(*arguments, "--output", "json", code=code, env=env)

    def apply(self, *arguments: str, code: int | None = 0, env: Mapping[str, str] | None = None) -> Ran:
        return self.json("apply", "--auto-approve", *arguments, code=code, env=env)

    def creating(self, *addresses: str) -> Sequence[str]:
        """The options of an apply that approve the creation of these."""
        word = word_of(self.root)
        return [f"--approve-create={each}@{word}" for each in addresses]

    def approve(self, *addresses: str) -> None:
        """From now on, applies may create these."""
        word = word_of(self.root)
        self.env["RECONCILE_APPROVE_CREATE"] = ",".join(f"{each}@{word}" for each in addresses)

    @contextmanager
    def started(
        self, *arguments: str, env: Mapping[str, str] | None = None, first: str = ""
    ) -> Iterator[Running]:
        """A verb that runs beside the test; killed at the end of the block if it still does.

        `first`: what Python does in the process before.
        """
        main = f"{first}\nfrom reconciler.cli.main import main\nmain()"
        command = [sys.executable, "-c", main] if first else RECONCILE
        with subprocess.Popen(
            [*command, *arguments],
            cwd=self.root,
            env={**self.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield Running(process)
            finally:
                process.kill()

    def started_apply(self) -> Any:
        return self.started("apply", "--auto-approve", "--output", "json")


def environment(base_url: str | None, **more: str) -> dict[str, str]:
    """Only what a verb needs: nothing of the tester's own settings gets in."""
    names = ("PATH", "LANG", "VIRTUAL_ENV", "XDG_STATE_HOME")  # no HOME: nothing is left there
    env = {name: os.environ[name] for name in names if name in os.environ}
    env |= {"RECONCILE_TOKEN": TOKEN, "RECONCILE_SETTLE_S": "0.2", "PYTHONPATH": str(_source()), **more}
    if base_url is not None:
        env["RECONCILE_BASE_URL"] = base_url
    return env


def _source() -> Path:
    return Path(__file__).parent.parent.parent


def volume(app: str, name: str = "data", spec: str = "region: ams, size_gb: 10", rest: str = "") -> str:
    return (
        f"---\napiVersion: reconciler/v1\nkind: Volume\nmetadata: {{name: {name}, app: {app}}}\n"
        f"spec: {{{spec}}}\n{rest}"
    )


def cluster(name: str, spec: str = "org_slug: personal, plan: starter, region: ams", rest: str = "") -> str:
    return (
        f"---\napiVersion: reconciler/v1\nkind: PostgresCluster\nmetadata: {{name: {name}}}\n"
        f"spec: {{{spec}}}\n{rest}"
    )


def secret(app: str, name: str, source: str) -> str:
    """`source`: such as `env: PASSWORD`."""
    return (
        f"---\napiVersion: reconciler/v1\nkind: Secret\nmetadata: {{name: {name}, app: {app}}}\n"
        f"spec: {{value_from: {{{source}}}}}\n"
    )


def moved(source: str, target: str, name: str = "m") -> str:
    return (
        f"---\napiVersion: reconciler/v1\nkind: Moved\nmetadata: {{name: {name}}}\n"
        f'spec: {{from: "{source}", to: "{target}"}}\n'
    )


def lines_with(text: str, part: str) -> Sequence[str]:
    return [line for line in text.splitlines() if part in line]


def only(items: Sequence[Any]) -> Any:
    assert len(items) == 1, items
    return items[0]
