"""An agent's run: it sends what people signed, whatever it is told, tries or edits."""

from pathlib import Path

import pytest

from tests.approvals.people import make
from tests.demo.project import empty, shop
from tests.inprocess import Command

__all__ = ["empty", "shop"]

AGENTS = "agents: {variables: [CLAUDECODE]}\n"
RULE = "error[approval-needed]: the rule {agent: CLAUDECODE}"
FOR_PEOPLE = (
    "state init",
    "state forget Volume/shop/data",
    "state unlock shop --force",
    "state mv Volume/shop/data Volume/shop/other",
    "state restore",
    "state set-platform http://127.0.0.1:1",
    "resolve Volume/shop/data --restarted",
    "drill",
    "drift --accept",
    "controller resume shop",
    "controller accept 0123456789abcdef0123456789abcdef01234567",
    "apply --auto-approve --approve-delete Volume/shop/data",
    "apply --auto-approve --approve-create PostgresCluster/orders@12345678",
)


@pytest.fixture
def reconcile(shop: Command) -> Command:
    """A demo whose settings name agents, and whose state remembers that."""
    with (shop.root / "reconcile.yaml").open("a") as settings:
        settings.write(AGENTS)
    shop("apply --auto-approve")
    return shop


def become_agent(reconcile: Command) -> None:
    reconcile.variables["CLAUDECODE"] = "1"


def edit(reconcile: Command, name: str, old: str, new: str) -> None:
    path = reconcile.root / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_person_is_not_concerned(reconcile: Command) -> None:
    edit(reconcile, "manifests/data.yaml", "size_gb: 10", "size_gb: 20")
    assert "Applied: 1 done." in reconcile("apply --auto-approve").out


def test_an_agent_applies_nothing_that_nobody_signed(reconcile: Command) -> None:
    become_agent(reconcile)
    edit(reconcile, "manifests/data.yaml", "size_gb: 10", "size_gb: 20")
    assert RULE in reconcile("apply --auto-approve", code=1).err
    reconcile("plan --out own.plan")
    assert RULE in reconcile("apply --plan own.plan --auto-approve", code=1).err


def test_the_plan_says_what_its_apply_will_ask_for(reconcile: Command) -> None:
    become_agent(reconcile)
    edit(reconcile, "manifests/data.yaml", "size_gb: 10", "size_gb: 20")
    assert "warning[approval-needed]: the rule {agent: CLAUDECODE}" in reconcile("plan").err


def test_it_cannot_take_the_rule_away(reconcile: Command) -> None:
    become_agent(reconcile)
    edit(reconcile, "manifests/data.yaml", "size_gb: 10", "size_gb: 20")
    edit(reconcile, "reconcile.yaml", AGENTS, "")
    assert RULE in reconcile("apply --auto-approve", code=1).err
    edit(reconcile, "manifests/data.yaml", "size_gb: 20", "size_gb: 10")
    reconcile("apply --auto-approve")  # without a change, it may; and still takes nothing away
    edit(reconcile, "manifests/data.yaml", "size_gb: 10", "size_gb: 20")
    assert RULE in reconcile("apply --auto-approve", code=1).err


def test_a_person_can_take_the_rule_away(reconcile: Command) -> None:
    edit(reconcile, "reconcile.yaml", AGENTS, "")
    assert "rules-loosened" in reconcile("apply --auto-approve").err
    become_agent(reconcile)
    edit(reconcile, "manifests/data.yaml", "size_gb: 10", "size_gb: 20")
    assert "Applied: 1 done." in reconcile("apply --auto-approve").out


@pytest.mark.parametrize("settings", [AGENTS, ""], ids=["named", "remembered"])
def test_what_is_for_people_is_refused(reconcile: Command, settings: str) -> None:
    become_agent(reconcile)
    edit(reconcile, "reconcile.yaml", AGENTS, settings)
    for line in FOR_PEOPLE:
        told = reconcile(line, code=1).err
        assert "an agent runs this (`CLAUDECODE` is set)" in told, line
        assert "is for people; nothing was changed" in told, line


def test_what_only_reads_works(reconcile: Command) -> None:
    become_agent(reconcile)
    for line in ("validate", "plan", "drift", "show Volume/shop/data", "history", "doctor", "state list"):
        reconcile(line)


def test_in_the_sandbox_it_is_free(reconcile: Command) -> None:
    become_agent(reconcile)
    assert "Applied" in reconcile("apply --sandbox --auto-approve").out
    assert "forgotten" in reconcile("state forget Volume/shop/data --sandbox").out


def test_it_applies_what_a_person_signed(reconcile: Command, tmp_path: Path) -> None:
    ana = make(tmp_path, "ana@example.com")
    (reconcile.root / "allowed_signers").write_text(ana.line())
    reconcile("apply --auto-approve")
    become_agent(reconcile)
    edit(reconcile, "manifests/data.yaml", "size_gb: 10", "size_gb: 20")
    reconcile("plan --rehearse --out proposed.plan")
    del reconcile.variables["CLAUDECODE"]
    reconcile.monkeypatch.delenv("CLAUDECODE")
    reconcile(f"approve proposed.plan --key {ana.key} --auto-approve --reason 'orders need room'")
    become_agent(reconcile)
    (approval,) = reconcile.root.glob("proposed.plan*.approval")
    ended = reconcile(f"apply --plan proposed.plan --approval {approval.name} --auto-approve")
    assert "Applied: 1 done." in ended.out


def test_keys_of_its_own_do_not_count(reconcile: Command, tmp_path: Path) -> None:
    become_agent(reconcile)
    own = make(tmp_path, "agent@example.com")
    (reconcile.root / "allowed_signers").write_text(own.line())
    edit(reconcile, "manifests/data.yaml", "size_gb: 10", "size_gb: 20")
    reconcile("plan --rehearse --out own.plan")
    reconcile(f"approve own.plan --key {own.key} --auto-approve --reason mine")
    (approval,) = reconcile.root.glob("own.plan*.approval")
    assert RULE in reconcile(f"apply --plan own.plan --approval {approval.name} --auto-approve", code=1).err
