"""Adopting is quiet: whatever the platform shows, the plan after an import holds adoptions alone."""

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.core.model import Action
from tests.importing.scene import ALL, Scene, cluster, volume, volumes

NAMES = st.sampled_from(
    ["data", "Data", "data-2", "my data", "../../etc/passwd", "no", "1", "a\nb: c", "", "é"]
)
VOLUMES: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict,
    name=NAMES | st.none() | st.text(st.characters(codec="utf-8"), max_size=70),
    region=st.sampled_from(["ams", "no", "a\n- b", ""]) | st.none(),
    size_gb=st.integers(-1, 600) | st.none(),
    encrypted=st.booleans() | st.none(),
    fstype=st.sampled_from(["ext4", "raw", ""]) | st.none(),
    auto_backup_enabled=st.booleans() | st.none(),
    snapshot_retention=st.integers(-1, 90) | st.none(),
    state=st.sampled_from(["created", "restoring", "pending_destroy", "unheard of"]),
    attached_machine_id=st.sampled_from(["m1", None]),
)
CLUSTERS: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict,
    name=NAMES | st.none(),
    plan=st.sampled_from(["starter", "STARTER", "performance", "custom"]) | st.none(),
    region=st.sampled_from(["ams", "on"]) | st.none(),
    disk_size_gb=st.integers(1, 2000) | st.none(),
    pg_major_version=st.sampled_from(["15", "16", "17"]) | st.none(),
    postgis_enabled=st.booleans() | st.none(),
    status=st.sampled_from(["ready", "creating", "failed", "deleted", "unheard of"]),
    organization=st.sampled_from([{"slug": "acme"}, {"slug": "personal"}, {"slug": "a/../b\nc"}, None]),
)
POLICY = """
---
apiVersion: reconciler/v1
kind: RetentionPolicy
metadata: {name: %s}
spec: {selector: {}, snapshot_retention: %d, auto_backup_enabled: %s}
"""
POLICIES = st.sampled_from(
    ["", POLICY % ("a", 30, "true"), POLICY % ("a", 5, "false") + POLICY % ("b", 7, "false")]
)


@example([{"name": "\x80"}, {"name": "\u202ea"}, {"name": "\ufeff"}], [], "")
@given(st.lists(VOLUMES, max_size=6), st.lists(CLUSTERS, max_size=4), POLICIES)
def test_the_plan_after_an_import_only_adopts_and_another_import_finds_nothing(
    some_volumes: list[dict[str, Any]], some_clusters: list[dict[str, Any]], policies: str
) -> None:
    live_volumes = [volume(f"vol_{number}", **fields) for number, fields in enumerate(some_volumes)]
    clusters = [cluster(f"{number:016}", **fields) for number, fields in enumerate(some_clusters)]
    answers: dict[str, Any] = {f"/v1/postgres/{each['id']}": {"data": each} for each in clusters}
    listed = [{name: each[name] for name in ("id", "name", "status")} for each in clusters]
    answers |= {volumes("shop"): live_volumes, "/v1/postgres?org_slug=acme": {"data": listed}}
    answers["/v1/apps/shop/secrets"] = {"secrets": [{"name": each["name"] or ""} for each in live_volumes]}
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(Path(folder), answers, ALL)
        if policies:
            scene.write(policies)
        imported = scene.run("shop", organizations=["acme"])
        adopted = [entry for entry in imported.entries if not entry.declared.skeleton]
        plan = scene.plan()
        assert {change.action for change in plan.changes} <= {Action.ADOPT}
        assert [str(change.address) for change in plan.changes] != [] or not adopted
        assert len(plan.changes) == len(adopted)
        assert {step.call.method for step in plan.steps} <= {"GET"}
        assert all(field.effect is None for change in plan.changes for field in change.fields)
        before = {path: path.read_bytes() for path in scene.folder.glob("*")} if adopted else {}
        again = scene.run("shop", organizations=["acme"])
        assert again.entries == []
        assert all(path.read_bytes() == data for path, data in before.items())
        assert scene.platform.unexpected == []
