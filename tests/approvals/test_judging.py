"""What an approval dies by, and how many people have approved. Signatures are real ones."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.approvals.judging import About, missing, people, why_dead
from reconciler.approvals.rules import Rule
from reconciler.approvals.ssh import public_of, sign
from reconciler.approvals.statement import Approval
from reconciler.core.errors import ReconcilerError
from tests.approvals.people import AT, DIGEST, ENV, LINEAGE, REHEARSED, SAID, Person, signers

ABOUT = About(DIGEST, REHEARSED, "base", LINEAGE)
HOUR = timedelta(hours=1)


def why(approval: Approval, *lines: str, about: About = ABOUT, later: timedelta = HOUR) -> str:
    return why_dead(approval, about, signers(lines), AT + later, ENV)


def test_a_valid_one_counts(ana: Person) -> None:
    assert why(ana.approves(), ana.line()) == ""
    assert why(ana.approves(), ana.line(options="")) == ""


@pytest.mark.parametrize(
    ("about", "said"),
    [
        ({"plan": "c" * 64}, "another plan"),
        ({"rehearsal": ""}, "another rehearsal"),
        ({"environment": "prod"}, "for environment `base`, not `prod`"),
        ({"lineage": "other"}, "another state"),
    ],
)
def test_it_dies_by_another_plan_rehearsal_environment_or_state(
    ana: Person, about: dict[str, Any], said: str
) -> None:
    assert said in why(ana.approves(), ana.line(), about=replace(ABOUT, **about))


def test_it_dies_by_its_use(ana: Person) -> None:
    given = ana.approves()
    assert "used already" in why(given, ana.line(), about=replace(ABOUT, used={given.id}))


@pytest.mark.parametrize(
    ("later", "said"),
    [(timedelta(hours=24), "ended at 2026-01-02 00:00 UTC"), (-HOUR, "not yet: check both clocks")],
)
def test_it_dies_by_time(ana: Person, later: timedelta, said: str) -> None:
    assert said in why(ana.approves(), ana.line(), later=later)


def test_clocks_may_differ_by_some_minutes(ana: Person) -> None:
    assert why(ana.approves(), ana.line(), later=-timedelta(minutes=4)) == ""


def test_nobody_approves_for_longer_than_a_month(ana: Person) -> None:
    forever = ana.approves(expires=AT + timedelta(days=3000))
    assert why(forever, ana.line(), later=timedelta(days=29)) == ""
    assert "ended at 2026-01-31" in why(forever, ana.line(), later=timedelta(days=30))


def test_it_dies_by_another_byte_of_what_was_signed(ana: Person) -> None:
    given = ana.approves()
    changed = replace(given, statement=replace(given.statement, reason="another"))
    assert "changed after it was signed" in why(changed, ana.line())


@pytest.mark.parametrize(
    "options",
    [
        'namespaces="git"',
        'valid-before="20251231000000Z"',
        'valid-after="20270101000000Z"',
    ],
)
def test_it_dies_by_what_its_signer_may_not(ana: Person, options: str) -> None:
    said = why(ana.approves(), ana.line(options))
    assert "`allowed_signers` at main does not let `ana@example.com` sign" in said


def test_it_dies_by_the_removal_of_its_signer(ana: Person, bob: Person) -> None:
    assert "does not let" in why(ana.approves(), bob.line())
    assert "does not let" in why(ana.approves())


def test_nobody_signs_under_the_name_of_another(ana: Person, bob: Person) -> None:
    forged = bob.approves(principal=ana.name)
    assert "does not let" in why(forged, ana.line(), bob.line())


def test_a_signature_for_another_purpose_does_not_count(ana: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconciler.approvals.ssh.NAMESPACE", "git")
    of_git = ana.approves()
    monkeypatch.undo()
    assert why(of_git, ana.line(options="")) != ""


def test_one_person_with_two_keys_or_two_names_is_one(ana: Person, bob: Person) -> None:
    first, twice = ana.approves(), ana.approves()
    other_key = bob.approves(principal=ana.name)
    other_name = ana.approves(principal="ann@example.com")
    assert people([first]) == people([first, twice]) == 1
    assert people([first, other_key]) == 1
    assert people([first, other_name]) == 1
    assert people([first, bob.approves()]) == 2
    # Ana signed with both keys: her own is left to her, so that Bob's counts for Bob.
    assert people([other_key, first, bob.approves()]) == 2
    assert people([other_name, first, other_key, bob.approves()]) == 2


def test_a_rule_gives_an_approval_less_time_than_it_names(ana: Person, bob: Person) -> None:
    rule = Rule.model_validate({"when": {"action": "delete"}, "from": 2, "valid": "2h"})
    old, new = ana.approves(), bob.approves(at=AT + HOUR)
    assert [missing(rule, [old, new], AT + HOUR * hours) for hours in (1, 2, 3)] == [0, 1, 2]


def test_a_missing_program_is_told(ana: Person, tmp_path: Path) -> None:
    given = ana.approves()
    with pytest.raises(ReconcilerError, match="no program `ssh-keygen`") as refused:
        why_dead(given, ABOUT, signers([ana.line()]), AT, {"PATH": str(tmp_path)})
    assert "openssh-client" in refused.value.help


def test_a_key_that_does_not_sign_is_told(ana: Person, bob: Person, tmp_path: Path) -> None:
    with pytest.raises(ReconcilerError, match="there is no key"):
        public_of(tmp_path / "none", ENV)
    mixed = tmp_path / "mixed"
    mixed.write_bytes(ana.key.read_bytes())
    mixed.chmod(0o600)
    mixed.with_name("mixed.pub").write_text(bob.public)
    with pytest.raises(ReconcilerError, match=r"two keys|does not sign"):
        sign(SAID.to_bytes(), public_of(mixed, ENV), ENV)
    only_public = tmp_path / "only.pub"
    only_public.write_text(bob.public)
    with pytest.raises(ReconcilerError, match="does not sign"):
        sign(SAID.to_bytes(), public_of(only_public, ENV), ENV)
    broken = tmp_path / "broken.pub"
    broken.write_text("ssh-ed25519 ???")
    with pytest.raises(ReconcilerError, match="does not hold a public key"):
        public_of(broken, ENV)
