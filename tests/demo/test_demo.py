"""`reconcile demo`: one line to begin, one to end, and troubles between them."""

import shutil
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from reconciler.demo import shop
from reconciler.demo.troubles import TROUBLES
from reconciler.sandbox.lock import running_at
from tests.inprocess import Command


def test_one_line_begins_and_one_ends(reconcile: Command) -> None:
    reconcile("demo")
    assert "No changes: 3 resources are as declared." in reconcile("plan").out
    assert "The demo has ended." in reconcile("demo stop").out
    assert "No demo runs" in reconcile("demo stop").out
    reconcile("demo")  # goes on as it was, at its own port
    assert "No changes: 3 resources are as declared." in reconcile("plan").out


def test_a_demo_that_runs_is_not_started_again(reconcile: Command) -> None:
    reconcile("demo")
    db = reconcile.root / ".demo/platform.db"
    first = running_at(db)
    assert first is not None
    reconcile("demo")
    assert running_at(db) == first


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("reconcile.yaml", "platform: {base_url: https://api.example.com}\n"),
        ("manifests/data.yaml", "a: 1\n"),
    ],
)
def test_no_file_of_anybody_else_is_replaced(reconcile: Command, name: str, text: str) -> None:
    file = reconcile.root / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    assert "in an empty folder" in reconcile("demo", code=1).err
    assert file.read_text() == text
    assert not (reconcile.root / ".demo").exists()


def test_where_a_state_was_nothing_is_begun(reconcile: Command) -> None:
    reconcile("demo")
    reconcile("demo stop")
    for path in (".demo", ".reconcile", "manifests"):
        shutil.rmtree(reconcile.root / path)
    for file in reconcile.root.iterdir():
        file.unlink()
    told = reconcile("demo", code=1).err
    assert "run `reconcile demo` in a new folder; or move away" in told
    assert list(reconcile.root.iterdir()) == []
    Path(told.rpartition("move away ")[2].strip()).unlink()
    reconcile("demo")


def test_a_trouble_needs_a_demo_and_a_name(reconcile: Command) -> None:
    assert "start it with `reconcile demo`" in reconcile("demo play outage", code=1).err
    reconcile("demo")
    assert "did you mean `volume-grown`" in reconcile("demo play volume-groan", code=1).err


def test_each_trouble_can_be_played(reconcile: Command) -> None:
    reconcile("demo")
    lines = reconcile("demo play").out.splitlines()
    assert [line.split()[0] for line in lines] == list(TROUBLES)
    for name in sorted(TROUBLES, key=lambda name: name == "volume-deleted"):  # the others need the volume
        assert reconcile(f"demo play {name}").out.startswith("Played: ")
    reconcile("demo play volume-deleted")  # that of `volume-made`
    assert "no such object" in reconcile("demo play volume-deleted", code=1).err


def test_troubles_are_what_they_say(reconcile: Command) -> None:
    reconcile("demo")
    reconcile("demo play retention-changed")
    assert "snapshot_retention: 14 -> 3" in reconcile("drift", code=2).out
    reconcile("demo play volume-deleted")
    assert "error[object-destroyed]" in reconcile("plan", code=1).err
    reconcile("demo play outage")
    assert "platform-down" in reconcile("plan", code=1).err
    reconcile("demo play calm")
    assert "error[object-destroyed]" in reconcile("plan", code=1).err


def test_the_platform_outlives_the_command_and_ends_when_it_is_stopped(reconcile: Command) -> None:
    reconcile("demo")
    running = running_at(reconcile.root / ".demo/platform.db")
    assert running is not None
    address = urlsplit(running.url)
    assert address.hostname is not None
    assert address.port is not None
    socket.create_connection((address.hostname, address.port)).close()
    assert shop.stop(reconcile.root)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address.hostname, address.port))
