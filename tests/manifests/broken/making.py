"""What git cannot hold: files without permission, links, pipes, names that are no text, much too much."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from reconciler.manifests import files
from reconciler.manifests.reading.refusals import (
    LONGEST_LINE,
    MOST_BYTES,
    MOST_DOCUMENT_EVENTS,
    MOST_DOCUMENTS,
)

NOBODY = 65534
VOLUME = "apiVersion: reconciler/v1\nkind: Volume\nmetadata: {name: data, app: shop}\nspec: {size_gb: 10}\n"

Make = Callable[[Path], None]


def _file(name: str, content: str | bytes) -> Make:
    def make(folder: Path) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    return make


def _unreadable_file(folder: Path) -> None:
    (folder / "locked.yaml").write_text(VOLUME)
    (folder / "locked.yaml").chmod(0)


def _unreadable_folder(folder: Path) -> None:
    (folder / "locked").mkdir(mode=0)


def _link_out(folder: Path) -> None:
    (folder.parent / "outside.yaml").write_text("hunter2")
    (folder / "link.yaml").symlink_to("../outside.yaml")


def _link_to_a_folder_outside(folder: Path) -> None:
    (folder.parent / "outside").mkdir()
    (folder.parent / "outside" / "a.yaml").write_text(VOLUME)
    (folder / "link").symlink_to("../outside")


def _link_to_a_password(folder: Path) -> None:
    (folder / "passwd.yaml").symlink_to("/etc/passwd")


def _link_to_nothing(folder: Path) -> None:
    (folder / "link.yaml").symlink_to("nowhere.yaml")


def _link_to_itself(folder: Path) -> None:
    (folder / "link.yaml").symlink_to("link.yaml")


def _links_to_each_other(folder: Path) -> None:
    (folder / "a.yaml").symlink_to("b.yaml")
    (folder / "b.yaml").symlink_to("a.yaml")


def _pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe.yaml")


def _socket(folder: Path) -> None:
    here = Path.cwd()
    os.chdir(folder)  # a socket's address has room for a short path only
    try:
        with socket.socket(socket.AF_UNIX) as end:
            end.bind("socket.yaml")
    finally:
        os.chdir(here)


def _sparse(folder: Path) -> None:
    with (folder / "sparse.yaml").open("wb") as file:
        file.truncate(1 << 40)


def _not_text(folder: Path) -> None:
    (folder / os.fsdecode(b"caf\xe9.yaml")).write_text(VOLUME.replace("Volume", "Volum"))


def _twins(folder: Path) -> None:
    for name in ("a.yaml", "b.yaml"):
        (folder / name).write_text(VOLUME)


def _nothing(folder: Path) -> None:
    pass


MADE: dict[str, Make] = {
    "a-file-without-permission": _unreadable_file,
    "a-folder-without-permission": _unreadable_folder,
    "a-link-out-of-the-tree": _link_out,
    "a-link-to-a-folder-outside": _link_to_a_folder_outside,
    "a-link-to-the-file-of-passwords": _link_to_a_password,
    "a-link-to-nothing": _link_to_nothing,
    "a-link-to-itself": _link_to_itself,
    "links-to-each-other": _links_to_each_other,
    "a-pipe": _pipe,
    "a-socket": _socket,
    "a-folder-called-like-a-file": _file("data.yaml/broken.yaml", VOLUME.replace("10", "ten")),
    "an-empty-folder": _nothing,
    "a-file-of-a-tebibyte-of-nothing": _sparse,
    "a-file-too-large": _file("large.yaml", b"#" * (MOST_BYTES + 1)),
    "a-line-too-long": _file("long.yaml", VOLUME + "# " + "x" * LONGEST_LINE),
    "too-many-documents": _file("many.yaml", "---\n" * (MOST_DOCUMENTS + 2)),
    "too-many-values": _file("many.yaml", VOLUME + "x:\n" + "- x\n" * MOST_DOCUMENT_EVENTS),
    "a-hundred-thousand-brackets": _file("deep.yaml", "[" * 100_000),
    "a-hundred-thousand-hyphens": _file("deep.yaml", "- " * 100_000),
    "a-hundred-thousand-quotes": _file("quotes.yaml", "a: " + "'" * 100_001),
    "a-name-that-is-no-text": _not_text,
    "a-name-with-a-line-break": _file("a\nb.yaml", VOLUME.replace("Volume", "Volum")),
    "a-name-with-an-escape-sequence": _file("\x1b[31mred.yaml", VOLUME.replace("Volume", "Volum")),
    "a-name-with-an-emoji-and-spaces": _file("my 🚀 file.yaml", VOLUME.replace("Volume", "Volum")),
    "a-name-like-an-option": _file("--help.yaml", VOLUME.replace("Volume", "Volum")),
    "two-files-with-one-address": _twins,
    "a-file-that-vanishes": _file("vanishing.yaml", VOLUME),
}

# Under the name of the settings' file, beside a good manifest.
SETTINGS: dict[str, bytes] = {
    "settings-in-bad-yaml": b"manifests: [manifests\nstate: x\n",
    "settings-with-a-tab": b"platform:\n\tbase_url: http://127.0.0.1:1\n",
    "settings-in-latin-1": "# caf\xe9\n".encode("latin-1"),
    "settings-with-a-nul": b"state: a\0b\n",
    "settings-with-a-key-twice": b"state: sqlite:a.db\nstate: sqlite:b.db\n",
    "settings-that-are-a-list": b"- manifests\n",
    "settings-that-are-text": b"hunter2\n",
    "settings-of-two-documents": b"manifests: [manifests]\n---\nstate: sqlite:a.db\n",
    "settings-misspelt": b"manifest: [manifests]\n",
    "settings-misspelt-further-down": b"# \xf0\x9f\x9a\x80\nplatform: {base_ulr: http://127.0.0.1:1}\n",
    "settings-of-the-wrong-type": b"manifests: manifests\nexecution: {concurrency: many}\n",
    "settings-out-of-range": b"execution: {concurrency: 0, deadline_s: -1}\n",
    "settings-with-an-unknown-capability": b"platform:\n  capabilities: [postgres.lst, extended]\n",
    "settings-with-a-token": b"platform:\n  token: hunter2\n",
    "settings-with-a-token-that-begins-with-a-star": b"platform:\n  token: *hunter2-Pa55\n",
    "settings-with-a-token-for-the-name-of-its-source": b"platform: {token_from: {hunter2-Pa55: A}}\n",
    "settings-with-a-token-and-no-name": b"platform: {hunter2-Pa55}\n",
    "settings-with-a-token-twice": b"platform: {hunter2-Pa55, hunter2-Pa55}\n",
    "settings-with-a-key-and-no-name": b"secrets: {age_identity_from: {hunter2-Pa55}}\n",
    "settings-with-a-tag": b"state: !env STATE\n",
    "settings-with-a-template": b"state: {{ state }}\n",
    "settings-that-are-empty-where-they-matter": b"platform:\nmanifests:\n",
}


@contextmanager
def nobody() -> Iterator[None]:
    """As a user without the administrator's right to read everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def vanishing() -> Iterator[None]:
    """Each file that was found is gone before it is opened."""
    honest = files._read

    def read(path: str, seen: set[tuple[int, int]]) -> bytes | None:
        Path(path).rename(f"{path}.gone")
        try:
            return honest(path, seen)
        finally:
            Path(f"{path}.gone").rename(path)

    files._read = read
    try:
        yield
    finally:
        files._read = honest
