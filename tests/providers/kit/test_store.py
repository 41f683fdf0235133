"""The store: private, shared by workers, strict about what it opens."""

import os
import sqlite3
from pathlib import Path

import pytest

from reconciler.core.errors import StoreError
from reconciler.providers.kit import store as stores
from reconciler.providers.kit.store import Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "provider.db"


def test_files_are_nobody_elses(path: Path) -> None:
    before = os.umask(0)
    try:
        store = Store(path)
        store.claim("nonces", "a", 1.0)
        files = [file for file in path.parent.rglob("*") if file.is_file()]
        assert len(files) >= 4
        assert {item.stat().st_mode & 0o777 for item in files} == {0o600}
        store.close()
    finally:
        os.umask(before)


def test_a_store_of_before_knows_which_names_the_provider_gave(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.setattr(stores, "_MIGRATIONS", stores._MIGRATIONS[:1])
        before.setattr(stores, "VERSION", 1)
        old = Store(path)
        for id, name in (("a", "ordered"), ("b", "given")):
            old.change(
                "INSERT INTO resources (id, resource_id, fingerprint, first, wanted, phase, status, name,"
                " made_at) VALUES (?, ?, '', '{}', ?, 'made', 'ready', ?, 0)",
                *(id, id, '{"name": "ordered"}', name),
            )
        old.close()
    new = Store(path)
    assert [row["own_name"] for row in new.rows("SELECT own_name FROM resources ORDER BY id")] == [0, 1]
    new.close()


def test_a_folder_is_made_for_the_project_alone(tmp_path: Path) -> None:
    Store(tmp_path / ".reconcile" / "provider.db").close()
    for folder in (tmp_path / "none", tmp_path / "none" / ".reconcile"):
        with pytest.raises(StoreError, match="does not exist"):
            Store(folder / "provider.db")
    assert not (tmp_path / "none").exists()


def test_a_lease_is_held_by_the_living_and_freed_by_the_dead(path: Path) -> None:
    one, other = Store(path), Store(path)
    assert one.take("resource:a")
    assert not other.take("resource:a")
    assert not one.take("resource:a")
    os.close(one._own)  # as the kernel does when a process is killed
    assert other.take("resource:a")
    other.close()
    one._own = os.open(path, os.O_RDONLY)
    one.close()


def test_a_lease_that_was_given_back_is_free(path: Path) -> None:
    one, other = Store(path), Store(path)
    assert one.take("outbox")
    one.release("outbox")
    assert other.take("outbox")
    one.release("outbox")  # not its own any more
    assert not one.take("outbox")
    one.close()
    other.close()


def test_without_its_key_a_store_is_not_opened(path: Path) -> None:
    Store(path).close()
    key = path.with_name("provider.db.key")
    content = key.read_bytes()
    key.unlink()
    with pytest.raises(StoreError, match="cannot be read") as refused:
        Store(path)
    assert "backup" in refused.value.help
    key.write_bytes(bytes(32))
    with pytest.raises(StoreError, match="is not the key of"):
        Store(path)
    key.write_bytes(content)
    Store(path).close()


def test_another_database_or_a_newer_one_is_left_alone(path: Path) -> None:
    other = path.with_name("other.db")
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE orders (id)")
    connection.close()
    with pytest.raises(StoreError, match="not a provider's"):
        Store(other)
    Store(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreError, match="newer"):
        Store(path)
