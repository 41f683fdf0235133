"""The real program, watched: what it writes and starts is noted, and a bug may be planted.

`python -m tests.reliability.canary.victim ARGUMENTS`, by environment:
- `CANARY_NOTES`: a file that gets, one JSON line each, every path opened for writing and every command
  started; what was deleted is kept in the directory of that name and `.removed`
- `CANARY_BUG`: the name of a function that raises instead of working (see BUGS)
- `CANARY_LEAK`: the value of an environment variable goes where it should not (see LEAKS)
- `CANARY_FILE_BYTES`: no file may grow beyond it, as on a disk that is full
"""

import base64
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

# Places through which values pass: module, object and attribute.
BUGS = {
    "resolve": ("reconciler.secrets.sources", None, "_from_env"),
    "decrypt": ("reconciler.secrets.age", None, "decrypt"),
    "value": ("reconciler.secrets.sources", None, "as_value"),
    "fingerprint": ("reconciler.execution.run", None, "fingerprint"),
    "body": ("reconciler.execution.sending", None, "fill_body"),
    "send": ("reconciler.services.client", "Client", "_request"),
    "transport": ("reconciler.services.http1", "Http1Transport", "_exchange"),
    "classify": ("reconciler.services.client", None, "classify"),
    "record": ("reconciler.execution.recorder", "Recorder", "done"),
    "report": ("reconciler.reports.documents", None, "document_of"),
}


def _log(value: str) -> None:
    import structlog

    structlog.get_logger("reconciler").info("planted", message=f"sending {value}")


def _keep(value: str) -> None:
    Path("debug.json").write_text(json.dumps({"body": value}))


def _keep_for_a_while(value: str) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".tmp") as file:
        file.write(base64.b64encode(value.encode()).decode())
        file.flush()


def _pass_on(value: str) -> None:
    subprocess.run([sys.executable, "-c", "import time; time.sleep(0.1)", value], check=True)


def _fail(value: str) -> None:
    raise RuntimeError("planted") from ValueError(f"not accepted: {value}")


LEAKS = {"log": _log, "file": _keep, "temporary": _keep_for_a_while, "argv": _pass_on, "exception": _fail}

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND


def main() -> None:
    _watch(os.environ["CANARY_NOTES"])
    if "CANARY_FILE_BYTES" in os.environ:
        most = int(os.environ["CANARY_FILE_BYTES"])
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    if "CANARY_LEAK" in os.environ:
        _plant_leak(LEAKS[os.environ["CANARY_LEAK"]])
    if "CANARY_BUG" in os.environ:
        _plant(os.environ["CANARY_BUG"])
    sys.excepthook = _tell_everything
    from reconciler.cli.main import main as real_main

    real_main()


def _watch(notes: str) -> None:
    # Opened at once, so that a limit on files and a closed directory come too late for it.
    file = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    removed = Path(f"{notes}.removed")
    busy = False

    def write(line: dict[str, str]) -> None:
        os.write(file, json.dumps(line).encode() + b"\n")

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal busy
        if busy or event not in ("open", "subprocess.Popen", "os.exec", "sqlite3.connect", "os.remove"):
            return
        busy = True
        try:
            if event == "open":
                path, mode, flags = arguments
                if (isinstance(mode, str) and set(mode) & set("wax+")) or (flags or 0) & _WRITES:
                    write({"wrote": str(Path(os.fsdecode(path)).absolute())})
            elif event == "os.remove":
                removed.mkdir(exist_ok=True)
                shutil.copyfile(arguments[0], removed / str(time.monotonic_ns()))
            elif event == "sqlite3.connect":
                write({"wrote": str(Path(str(arguments[0])).absolute())})
            else:
                write({"started": repr(arguments)})
        except (OSError, TypeError, ValueError):
            pass  # a descriptor instead of a path, or no room for the note
        finally:
            busy = False

    sys.addaudithook(note)


def _plant(name: str) -> None:
    module, owner, attribute = BUGS[name]
    place: Any = import_module(module)
    if owner is not None:
        place = getattr(place, owner)
    setattr(place, attribute, _bug_in(getattr(place, attribute)))


def _plant_leak(leak: Callable[[str], None]) -> None:
    from reconciler.secrets import sources

    honest = sources._from_env

    def read(name: str, env: Mapping[str, str]) -> str:
        value = honest(name, env)
        leak(value)
        return value

    sources._from_env = read


def _bug_in(function: Callable[..., Any]) -> Callable[..., NoReturn]:
    """As bugs are: the value is at hand, in arguments, when something else is wrong."""

    def raises(*arguments: Any, **named: Any) -> NoReturn:
        mistaken: dict[str, Any] = {}
        raise RuntimeError(f"planted in {function.__name__}") from KeyError(len(mistaken) + len(arguments))

    return raises


def _tell_everything(kind: type[BaseException], failure: BaseException, trace: Any) -> None:
    """A crash as Python shows it, and what the exceptions themselves hold."""
    sys.__excepthook__(kind, failure, trace)
    seen: list[BaseException] = [failure]
    for each in seen:
        inner = each.exceptions if isinstance(each, BaseExceptionGroup) else ()
        for other in (each.__cause__, each.__context__, *inner):
            if other is not None and other not in seen:
                seen.append(other)
        sys.stderr.write(f"exception: {each!r} {each.args!r} {vars(each)!r}\n")


if __name__ == "__main__":
    main()
