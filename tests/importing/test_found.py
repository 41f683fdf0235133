"""What is imported, what is left out and why, and how a word of the command line is understood."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.core.advice import NO_OPTIONS
from reconciler.core.errors import ReconcilerError, Unauthorized
from reconciler.core.model import Address, Lifecycle
from reconciler.execution.intents import Intent
from reconciler.importing.ownership import Skipped
from reconciler.importing.search import meaning
from reconciler.importing.unmanaged import import_page
from reconciler.reports.diagnostics import render
from reconciler.state.store import Event, JournalEntry
from tests.importing.scene import (
    ALL,
    NOW,
    Scene,
    actions,
    addresses,
    cluster,
    codes,
    reasons,
    record,
    volume,
    volumes,
)

MISSING = {"status": 404, "body": {"error": "Could not find App"}}
NO_CLUSTER = {"status": 404, "body": {"error": "Cluster not found"}}


def manifest(name: str = "data", metadata: str = "", spec: str = "region: ams") -> str:
    return (
        f"---\napiVersion: reconciler/v1\nkind: Volume\nmetadata: {{name: {name}, app: shop{metadata}}}\n"
        f"spec: {{{spec}}}\n"
    )


def moved(source: str, target: str, name: str = "m") -> str:
    spec = f"{{from: {source}, to: {target}}}"
    return f"---\napiVersion: reconciler/v1\nkind: Moved\nmetadata: {{name: {name}}}\nspec: {spec}\n"


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, {volumes("shop"): [volume()]})


def test_an_object_that_two_apps_list_gets_one_manifest(scene: Scene) -> None:
    scene.live[volumes("blog")] = [volume()]
    unmanaged = scene.run("blog", "shop")
    assert addresses(unmanaged) == ["Volume/blog/data"]
    assert reasons(unmanaged) == ["the platform also lists it in app `blog`: find out which app owns it"]
    assert codes(unmanaged) == ["not-importable"]


def test_what_can_change_is_written_and_of_the_rest_what_differs_from_the_defaults(scene: Scene) -> None:
    scene.live[volumes("shop")] = [
        volume(),
        volume("vol_2", name="logs", size_gb=20, encrypted=False, fstype="raw", auto_backup_enabled=False),
    ]
    scene.run("shop")
    written = scene.read("shop.yaml")
    watched = "  size_gb: 3\n  snapshot_retention: 5\n"
    assert f"spec:\n  region: ams\n{watched}---\n" in written
    assert written.endswith(
        "apiVersion: reconciler/v1\nkind: Volume\nmetadata:\n  name: logs\n  app: shop\n  id: vol_2\nspec:\n"
        "  region: ams\n  size_gb: 20\n  encrypted: false\n  fstype: raw\n  auto_backup_enabled: false\n"
        "  snapshot_retention: 5\n"
    )


def test_comments_say_what_nobody_can_know_after_an_adoption(scene: Scene) -> None:
    scene.capabilities = ALL
    scene.live["/v1/apps/shop/secrets"] = {"secrets": []}
    scene.live["/v1/postgres/orders0000000000"] = {"data": cluster()}
    scene.run("shop", alone=["orders0000000000"])
    assert (
        "# Volume: the platform never shows `machines_only`, `require_unique_zone`, `compute`"
        in scene.read("shop.yaml")
    )
    assert "# PostgresCluster: the platform never shows `pool_mode`" in scene.read("org-acme.yaml")


def test_same_named_volumes_get_addresses_of_their_own_and_keep_their_name(scene: Scene) -> None:
    names = ["data", "data", "data-2", "data"]
    scene.live[volumes("shop")] = [
        volume(f"vol_{number}", name=name, zone=f"z{number}") for number, name in enumerate(names)
    ]
    imported = scene.run("shop")
    assert addresses(imported) == [f"Volume/shop/{name}" for name in ("data", "data-3", "data-4", "data-2")]
    assert "# one of 3 that are called 'data' on the platform: zone z1\n" in scene.read("shop.yaml")
    assert [entry.spec.get("name") for entry in imported.entries] == [None, "data", "data", None]
    assert {action for _, action in actions(scene.plan())} == {"adopt"}


def test_a_new_volume_gets_no_address_that_a_record_still_holds(scene: Scene) -> None:
    scene.record(record("Volume/shop/data", "vol_old"))
    assert addresses(scene.found("shop")) == ["Volume/shop/data-2"]


@pytest.mark.parametrize(
    ("declared", "why", "reason"),
    [
        (manifest("mine", ", id: vol_1"), "known", "it is declared as `Volume/shop/mine`"),
        (manifest("data"), "meant", "`Volume/shop/data` may be this object: to adopt it, set `metadata.id`"),
        (manifest("mine", spec="name: data"), "meant", "`Volume/shop/mine` may be this object"),
    ],
    ids=["by id", "by name", "by spec.name"],
)
def test_what_a_manifest_declares_or_may_mean_is_left_to_it(
    scene: Scene, declared: str, why: str, reason: str
) -> None:
    scene.write(declared)
    found = scene.found("shop")
    assert found.entries == []
    assert [each.why for each in found.skipped] == [why]
    assert reasons(found)[0].startswith(reason)


def test_what_the_state_records_is_left_out_and_told_if_its_manifest_is_gone(scene: Scene) -> None:
    scene.record(record("Volume/shop/mine", "vol_1"))
    (lost,) = scene.found("shop").skipped
    assert (lost.why, lost.reason.partition(":")[0]) == (
        "recorded",
        "it is recorded as `Volume/shop/mine`, which has no manifest here",
    )
    scene.write(manifest("mine"))
    (known,) = scene.found("shop").skipped
    assert (known.why, known.reason) == ("known", "it is recorded as `Volume/shop/mine`")


def test_what_has_a_move_before_it_is_known_under_its_new_address(scene: Scene) -> None:
    scene.record(record("Volume/shop/data", "vol_1"), record("Volume/shop/logs[1]", "vol_2"))
    scene.live[volumes("shop")] = [volume(), volume("vol_2", name="logs"), volume("vol_3")]
    scene.write(
        manifest("orders")
        + manifest("traces", spec="region: ams, count: 2")
        + moved("Volume/shop/data", "Volume/shop/between", "a")
        + moved("Volume/shop/between", "Volume/shop/orders", "b")
        + moved("Volume/shop/logs", "Volume/shop/traces", "c")
    )
    imported = scene.run("shop")
    assert [(each.why, each.reason) for each in imported.skipped] == [
        ("known", "it is recorded as `Volume/shop/orders`"),
        ("known", "it is recorded as `Volume/shop/traces[1]`"),
    ]
    # The old address is not free: another one that is called so gets another.
    assert addresses(imported) == ["Volume/shop/data-2"]


def test_a_cluster_that_has_a_move_before_it_is_known_under_its_new_address(scene: Scene) -> None:
    scene.capabilities = ALL
    scene.record(record("PostgresCluster/orders", "orders0000000000"))
    scene.live["/v1/postgres?org_slug=acme"] = {"data": [cluster()]}
    scene.write(
        "apiVersion: reconciler/v1\nkind: PostgresCluster\nmetadata: {name: main}\n"
        "spec: {org_slug: acme, plan: starter, region: ams}\n"
        + moved("PostgresCluster/orders", "PostgresCluster/main")
    )
    assert reasons(scene.found(organizations=["acme"])) == ["it is recorded as `PostgresCluster/main`"]


@pytest.mark.parametrize("count", ["", ", count: 2"])
def test_what_may_have_moved_before_its_record_was_lost_is_left_to_its_manifest(
    scene: Scene, count: str
) -> None:
    scene.write(
        manifest("orders", spec=f"region: ams{count}") + moved("Volume/shop/data", "Volume/shop/orders")
    )
    found = scene.found("shop")
    assert found.entries == []
    assert reasons(found) == [
        "`Volume/shop/orders` may be this object: to adopt it, set `metadata.id` of that manifest"
    ]


def test_what_may_have_been_renamed_is_to_be_planned_and_not_to_be_forgotten(scene: Scene) -> None:
    scene.record(record("Volume/shop/data", "vol_1"))
    scene.write(manifest("orders"))
    (lost,) = scene.found("shop").skipped
    assert lost.why == "recorded"
    assert "forget" not in lost.reason
    assert "`reconcile plan` says" in lost.reason
    assert [each.code for each in scene.plan().diagnostics] == ["renamed"]


def test_a_cluster_that_a_manifest_may_mean_is_left_to_it(scene: Scene) -> None:
    scene.live["/v1/postgres/orders0000000000"] = {"data": cluster()}
    scene.write(
        "apiVersion: reconciler/v1\nkind: PostgresCluster\nmetadata: {name: orders}\n"
        "spec: {org_slug: acme, plan: starter, region: ams}\n"
    )
    assert "may be this object" in reasons(scene.found(alone=["orders0000000000"]))[0]


def test_destroyed_volumes_are_left_out_and_an_error_when_asked_for_by_id(scene: Scene) -> None:
    scene.live[volumes("shop")] = [volume("vol_1", state="pending_destroy"), volume("vol_2", name="b")]
    whole = scene.found("shop")
    assert (addresses(whole), reasons(whole), codes(whole)) == (
        ["Volume/shop/b"],
        ["it is pending_destroy"],
        [],
    )
    assert codes(scene.found(objects=[("shop", "vol_1")])) == ["not-importable"]


@pytest.mark.parametrize(
    "fields",
    [
        {"status": "failed"},
        {"plan": "custom"},
        {"plan": None},
        {"organization": None},
        {"organization": {"slug": "acme\n"}},
        {"region": "ams\x00"},
    ],
)
def test_a_cluster_that_no_quiet_manifest_can_stand_for_is_left_out_and_told(
    scene: Scene, fields: dict[str, Any]
) -> None:
    scene.live["/v1/postgres/orders0000000000"] = {"data": cluster(**fields)}
    found = scene.found("shop", alone=["orders0000000000"])
    assert addresses(found) == ["Volume/shop/data"]
    assert codes(found) == ["not-importable"]


@pytest.mark.parametrize("id", ["vol a", "", "../x", ".", "vol_\x1b[2J", "a/b"])
def test_an_object_whose_id_no_manifest_can_give_is_left_out_and_told(scene: Scene, id: str) -> None:
    scene.live[volumes("shop")] = [volume(id, name="odd"), volume("vol_2")]
    found = scene.run("shop")
    assert addresses(found) == ["Volume/shop/data"]
    assert codes(found) == ["not-importable"]
    assert f"Volume {id!r} of app `shop` is not imported" in found.diagnostics[0].message
    assert ("Volume/shop/data", "adopt") in actions(scene.plan())


def test_an_unusable_id_is_never_advised_where_a_manifest_may_mean_the_object(scene: Scene) -> None:
    scene.write(manifest("data"))
    scene.live[volumes("shop")] = [volume("vol a")]
    (reason,) = reasons(scene.found("shop"))
    assert reason.startswith("`Volume/shop/data` may be this object, but a manifest cannot contain its id")
    assert "metadata.id" not in reason


def test_text_tells_once_of_what_is_left_out_and_shows_no_control_character(scene: Scene) -> None:
    scene.capabilities = ALL
    scene.live[volumes("shop")] = [volume("vol_\x1b[2J"), volume("vol_2", name="x\x07", zone="\x1b")]
    scene.live["/v1/apps/shop/secrets"] = {"secrets": [{"name": "x\x1b]0;evil\x07\n"}]}
    scene.record(record("Volume/shop/mine", "vol_2"))
    found = scene.found("shop")
    (live,) = (each.live for each in found.skipped if each.why == "recorded")
    skipped = [*found.skipped, Skipped(live, "gone", "it is \x1b[2J\x9b")]
    page = import_page(replace(found, skipped=skipped), [], scene.root, NO_OPTIONS, dry_run=False)
    told = page.text
    told += render(found.diagnostics, lambda file, line: None)
    assert all(line.isprintable() for line in told.splitlines())
    for name in ("vol_\\x1b", "evil"):
        assert sum(name in line for line in told.splitlines()) == 1, told


@pytest.mark.parametrize("id", ["a b", "../x"])
def test_a_listed_cluster_with_such_an_id_stops_no_other(scene: Scene, id: str) -> None:
    scene.capabilities = ALL
    good = "b" * 16
    listed = [{"id": each, "name": "orders", "status": "ready"} for each in (id, good)]
    scene.live["/v1/postgres?org_slug=acme"] = {"data": listed}
    scene.live[f"/v1/postgres/{good}"] = {"data": cluster(good)}
    scene.live["/v1/postgres/a%20b"] = {"data": cluster("a b")}
    found = scene.run(organizations=["acme"])
    assert addresses(found) == ["PostgresCluster/orders"]
    assert codes(found) == ["not-importable"]


def test_an_app_that_cannot_be_read_stops_no_other(scene: Scene) -> None:
    scene.live |= {volumes("gone"): MISSING, volumes("secret"): {"status": 403, "body": {"error": "no"}}}
    found = scene.found("gone", "secret", "shop")
    assert addresses(found) == ["Volume/shop/data"]
    assert codes(found) == ["unreadable", "unreadable"]


def test_an_app_that_is_not_there_is_told_once(scene: Scene) -> None:
    scene.capabilities = frozenset({"secrets.list"})
    scene.live |= {volumes("gone"): MISSING, "/v1/apps/gone/secrets": MISSING}
    (problem,) = scene.found("gone").diagnostics
    assert "Could not find App" in problem.message


def test_a_plan_is_written_as_the_manual_spells_it(scene: Scene) -> None:
    scene.live["/v1/postgres/orders0000000000"] = {"data": cluster(plan="PERFORMANCE")}
    (entry,) = scene.found(alone=["orders0000000000"]).entries
    assert entry.spec["plan"] == "Performance"


def test_a_refused_token_imports_nothing(scene: Scene) -> None:
    scene.live[volumes("shop")] = {"status": 401, "body": {"error": "no"}}
    with pytest.raises(Unauthorized):
        scene.found("shop")


def test_an_organizations_clusters_are_listed_and_the_new_ones_read_one_by_one(scene: Scene) -> None:
    scene.capabilities = ALL
    ids = ["a" * 16, "b" * 16, "c" * 16]
    listed = [{"id": id, "name": id, "status": "ready"} for id in ids]
    listed[2]["status"] = "deleted"
    scene.live["/v1/postgres?org_slug=acme"] = {"data": listed}
    scene.live[f"/v1/postgres/{ids[1]}"] = {"data": cluster(ids[1], name="b", organization=None)}
    scene.record(record("PostgresCluster/a", ids[0]))
    found = scene.found(organizations=["acme"])
    assert addresses(found) == ["PostgresCluster/b"]
    assert found.entries[0].spec["org_slug"] == "acme"
    assert scene.platform.asked == ["/v1/postgres?org_slug=acme", f"/v1/postgres/{ids[1]}"]


def test_what_cannot_be_listed_names_the_capability(scene: Scene) -> None:
    with pytest.raises(ReconcilerError, match=r"`postgres\.list`"):
        scene.found(organizations=["acme"])
    with pytest.raises(ReconcilerError, match=r"`machine\.list`"):
        scene.found("shop", kinds=frozenset({"Machine"}))


# --- words ---


def test_a_namesake_of_a_recorded_cluster_is_found(scene: Scene) -> None:
    """Plan and drift read a recorded cluster alone and see none beside it: docs/how-to/drift.md says so."""
    scene.capabilities = ALL
    ours, other = "orders0000000000", "orders0000000001"
    scene.record(record("PostgresCluster/orders", ours))
    both = [cluster(ours), cluster(other)]
    scene.live |= {f"/v1/postgres/{each['id']}": {"data": each} for each in both}
    scene.live["/v1/postgres?org_slug=acme"] = {"data": both}
    scene.write(
        "apiVersion: reconciler/v1\nkind: PostgresCluster\nmetadata: {name: orders}\n"
        "spec: {org_slug: acme, plan: starter, region: ams}\n"
    )
    found = scene.found(organizations=["acme"])
    assert [entry.live.id for entry in found.entries] == [other], reasons(found)


@pytest.mark.parametrize(
    ("word", "what"),
    [("shop", "app"), ("vol_123", "id"), ("orders0000000000", "either"), ("shop_vol_1", "app")],
)
def test_words_are_told_apart_by_the_form_of_the_platforms_ids(word: str, what: str) -> None:
    assert meaning(word) == what


def test_a_word_that_may_be_both_is_what_the_platform_has(scene: Scene) -> None:
    word = "orders0000000000"
    scene.live |= {volumes(word): MISSING, f"/v1/postgres/{word}": {"data": cluster(word)}}
    assert addresses(scene.found(either=[word])) == ["PostgresCluster/orders"]
    scene.live |= {volumes(word): [volume()], f"/v1/postgres/{word}": NO_CLUSTER}
    assert addresses(scene.found(either=[word])) == [f"Volume/{word}/data"]
    scene.live |= {volumes(word): [volume()], f"/v1/postgres/{word}": {"data": cluster(word)}}
    both = scene.found(either=[word])
    assert (both.entries, codes(both)) == ([], ["import-ambiguous"])
    scene.live |= {volumes(word): MISSING, f"/v1/postgres/{word}": NO_CLUSTER}
    assert codes(scene.found(either=[word])) == ["import-not-found"]


def test_an_id_is_looked_for_in_its_app_beside_it_or_in_all_that_are_known(scene: Scene) -> None:
    scene.live |= {volumes("other"): [volume("vol_2", name="b")]}
    assert addresses(scene.found(objects=[("other", "vol_2")])) == ["Volume/other/b"]
    assert codes(scene.found(objects=[("shop", "vol_2")])) == ["import-not-found"]
    assert addresses(scene.found("other", ids=["vol_2"])) == ["Volume/other/b"]
    (alone,) = scene.found(ids=["vol_2"]).diagnostics
    assert "write APP/vol_2" in alone.help
    scene.record(record("Volume/other/known", "vol_9"))
    assert addresses(scene.found(ids=["vol_2"])) == ["Volume/other/b"]


def test_a_name_in_place_of_an_id_is_answered_with_the_ids(scene: Scene) -> None:
    (problem,) = scene.found(objects=[("shop", "data")]).diagnostics
    assert problem.help == "that is the name of shop/vol_1: write the id"


# --- secrets and machines ---


def test_secrets_become_comments_once(scene: Scene) -> None:
    scene.capabilities = frozenset({"secrets.list"})
    secrets = [{"name": name, "value": "canary"} for name in ("API_KEY", "SET", "my-secret", "not/a/name")]
    scene.live["/v1/apps/shop/secrets"] = {"secrets": secrets}
    scene.write(
        "apiVersion: reconciler/v1\nkind: Secret\nmetadata: {name: set, app: shop}\n"
        "spec: {name: SET, value_from: {env: SET}}\n"
    )
    first = scene.run("shop")
    assert addresses(first) == ["Volume/shop/data", "Secret/shop/API_KEY", "Secret/shop/my_secret"]
    assert reasons(first) == ["it is set by `Secret/shop/set`", "a Secret manifest cannot contain its name"]
    text = scene.read("shop.yaml")
    assert "# Secret/shop/API_KEY is set on the platform; its value cannot be read." in text
    assert "canary" not in text
    assert scene.run("shop").entries == []
    lines = [line.removeprefix("# ") for line in text.partition("uncomment:\n")[2].splitlines()]
    lines = [line for line in lines if "is set on the platform" not in line]
    scene.write("\n".join(lines), "key.yaml")
    assert {("Secret/shop/API_KEY", "set"), ("Secret/shop/my_secret", "set")} <= set(actions(scene.plan()))


def test_a_secret_whose_name_no_file_may_hold_as_it_is_becomes_a_comment_once(scene: Scene) -> None:
    scene.capabilities = frozenset({"secrets.list"})
    scene.live["/v1/apps/shop/secrets"] = {"secrets": [{"name": "\x80key"}]}
    assert "Secret/shop/key" in addresses(scene.run("shop"))
    text = scene.read("shop.yaml")
    assert "# Secret/shop/\\x80key is set on the platform" in text
    assert scene.run("shop").entries == []
    lines = [line.removeprefix("# ") for line in text.partition("uncomment:\n")[2].splitlines()]
    scene.write("\n".join(lines), "key.yaml")
    (step,) = (step for step in scene.plan().steps if step.address.kind == "Secret")
    assert step.call.path == "/v1/apps/shop/secrets/%C2%80key"


def test_names_of_any_text_are_written_so_that_they_load_again(scene: Scene) -> None:
    scene.capabilities = frozenset({"postgres.list"})
    free = "orders 2026-11-22T01:41:15Z"
    odd = ["#no comment", "a: b", "- list", "'quoted", "null", "1", "mein Läufer"]
    scene.live["/v1/apps/shop/volumes"] = [volume(f"vol_{n}", name=name) for n, name in enumerate(odd)]
    scene.live["/v1/postgres?org_slug=acme"] = {"data": [cluster(name=free)]}
    scene.live["/v1/postgres/orders0000000000"] = {"data": cluster(name=free)}
    scene.run("shop", organizations=["acme"])
    plan = scene.plan()
    assert {action for _, action in actions(plan)} == {"adopt"}
    assert (len(actions(plan)), plan.steps) == (len(odd) + 1, ())
    assert free in scene.read("org-acme.yaml")


def test_machines_are_imported_when_asked_for_and_their_power_is_left_alone(scene: Scene) -> None:
    scene.capabilities = frozenset({"machine.list"})
    scene.live["/v1/apps/shop/machines"] = [{"id": "m1", "name": "worker", "state": "suspended"}]
    assert addresses(scene.found("shop")) == ["Volume/shop/data"]
    assert addresses(scene.found(objects=[("shop", "m1")])) == ["Machine/shop/worker"]
    scene.run("shop", kinds=frozenset({"Machine"}))
    assert "  id: m1\n  # it is suspended now;" in scene.read("shop.yaml")
    assert "\n  # power: suspended\n" in scene.read("shop.yaml")
    assert actions(scene.plan()) == [("Volume/shop/data", "adopt")]
    assert scene.run("shop", kinds=frozenset({"Machine"})).entries == []


# --- policies, and calls that nobody knows the end of ---

POLICY = "apiVersion: reconciler/v1\nkind: RetentionPolicy\nmetadata: {name: all}\nspec: {selector: {}, %s}\n"


def test_a_policy_that_says_otherwise_is_answered_by_the_live_value(scene: Scene) -> None:
    scene.write(POLICY % "snapshot_retention: 30")
    scene.run("shop")
    assert "  snapshot_retention: 5\n" in scene.read("shop.yaml")
    assert actions(scene.plan()) == [("Volume/shop/data", "adopt")]


def test_a_policy_that_agrees_keeps_the_field(scene: Scene) -> None:
    scene.live[volumes("shop")] = [volume(snapshot_retention=30)]
    scene.write(POLICY % "snapshot_retention: 30")
    scene.run("shop")
    assert "snapshot_retention" not in scene.read("shop.yaml")


def test_an_objective_that_may_take_snapshots_is_told(scene: Scene) -> None:
    scene.write(POLICY % "snapshot_max_age_h: 24")
    assert codes(scene.found("shop")) == ["import-objective"]


def test_nothing_is_imported_that_a_call_of_unknown_outcome_may_have_made(scene: Scene) -> None:
    intent = Intent("POST", volumes("shop"), "find", True, {}, "shop", Lifecycle(), "")
    address = Address("Volume", "data", "shop")
    scene.intents = (JournalEntry("run", Event.INTENT, NOW, address=address, data=intent.to_json()),)
    scene.live[volumes("other")] = [volume("vol_2")]
    found = scene.found("shop", "other")
    assert addresses(found) == ["Volume/other/data"]
    assert codes(found) == ["unknown-outcome"]


def test_what_has_a_name_that_drills_give_is_left_out(scene: Scene) -> None:
    scene.live[volumes("shop")] = [volume(), volume(id="vol_9", name="drill-weekly-1")]
    unmanaged = scene.run("shop")
    assert addresses(unmanaged) == ["Volume/shop/data"]
    assert reasons(unmanaged) == ["its name is one that restore drills give"]
