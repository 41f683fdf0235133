"""What an approval dies by, and how many people have approved. Signatures are real ones."""

import subprocess
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.approvals.judging import About, in_force, people, why_dead
from reconciler.approvals.rules import Rule
from reconciler.approvals.ssh import public_of, sign
from reconciler.approvals.statement import Approval
from reconciler.core.errors import ReconcilerError
from tests.approvals.people import AT, DIGEST, ENV, LINEAGE, REHEARSED, SAID, Person, make, signers

ABOUT = About(DIGEST, REHEARSED, "base", LINEAGE)
HOUR = timedelta(hours=1)


def why(approval: Approval, *lines: str, about: About = ABOUT, later: timedelta = HOUR) -> str:
    return why_dead(approval, about, [signers(lines)], AT + later, ENV)


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
    "options", ['namespaces="git"', 'valid-before="20251231000000Z"', 'valid-after="20270101000000Z"']
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


def count(approvals: Sequence[Approval], *lines: str) -> int:
    return len(people(approvals, [signers(lines).text]))


def test_one_person_with_two_keys_or_two_names_is_one(ana: Person, bob: Person) -> None:
    first, twice = ana.approves(), ana.approves()
    other_key = bob.approves(principal=ana.name)
    other_name = ana.approves(principal="ann@example.com")
    assert count([first]) == count([first, twice]) == 1
    assert count([first, other_key]) == 1
    assert count([first, other_name]) == 1
    assert count([first, bob.approves()]) == 2
    assert count([other_key, first, bob.approves()]) == 1  # both names have Bob's key


@pytest.mark.parametrize(
    "lines",
    [
        ["ana@x,bob@y {ana}", "ana@x,bob@y {bob}"],
        ["ana@x {ana}", "bob@y {bob}", "eva@x,ana@x {eva}", "eva@x,bob@y {ann}"],  # over a third name
        ["ana@x {ana}", "bob@y {bob}", "ana@x {eva}", "bob@y {eva}"],  # over a third key
        ["* {ana}", "* {bob}"],
        ["?n?@x,b*@y {ana}", "bob@y {bob}"],
        ['"ana@x,bob@y" namespaces="reconcile-plan, git" {ana}', "bob@y {bob}"],
        ['"ana@x,bob@y"{ana}', "bob@y {bob}"],  # a closing quote ends the names
        ["q,\vq,ana@x,bob@y {ana}", "bob@y {bob}"],  # ssh-keygen takes a line apart at blanks and tabs only
        ['"ana laptop,ana@x,bob@y" {ana}', '"bobs desktop,ana@x,bob@y" {bob}'],
        ['\tana@x,bob@y\tvalid-after="20200101"\t{ana}', "bob@y {bob}"],
        ["# both", "broken line", "ana@x {ana}", "bob@y {bob}", 'ana@x,bob@y namespaces="git" {eva}'],
    ],
)
def test_names_that_the_file_brings_together_are_one_person(
    ana: Person, bob: Person, tmp_path: Path, lines: Sequence[str]
) -> None:
    """Two keys under two names, each of which verifies: by a line, a name, a key or a pattern."""
    public = {"ana": ana.public, "bob": bob.public}
    public |= {each: make(tmp_path, each).public for each in ("eva", "ann")}
    listed = [f"{line}\n".format_map(public) for line in lines]
    given = [ana.approves(principal="ana@x"), bob.approves(principal="bob@y")]
    assert [why(each, *listed) for each in given] == ["", ""]
    assert count(given, *listed) == 1
    apart = [f"ana@x {ana.public}\n", f"bob@y {bob.public}\n", f"*@z,ana@[xy] {public['eva']}\n"]
    assert count(given, *apart) == 2


def certified(authority: Person, person: Person, *names: str) -> Person:
    """The same key, by a certificate of its own."""
    number = len(list(person.key.parent.glob(f"{person.key.name}*")))
    key = person.key.with_name(f"{person.key.name}-{number}")
    for end in ("", ".pub"):
        key.with_name(key.name + end).write_bytes(person.key.with_name(person.key.name + end).read_bytes())
    key.chmod(0o600)
    sign: list[str | Path] = ["ssh-keygen", "-q", "-s", authority.key, "-I", "x", "-z", str(number)]
    subprocess.run([*sign, "-n", ",".join(names), key.with_name(f"{key.name}.pub")], check=True)
    key.with_name(f"{key.name}-cert.pub").rename(key.with_name(f"{key.name}.pub"))
    return Person(names[0], key)


@pytest.mark.parametrize("type", ["ed25519", "ecdsa", "rsa"])
def test_an_authority_vouches_for_each_key_that_it_certified(
    ana: Person, bob: Person, tmp_path: Path, type: str
) -> None:
    authority, person = make(tmp_path, "authority"), make(tmp_path, "person", "-t", type)
    line = f'* namespaces="reconcile-plan",cert-authority {authority.public}\n'
    given = [certified(authority, person, name).approves() for name in ("ana@x", "bob@x")]
    other = certified(authority, bob, "bob@y").approves()
    assert [why(each, line) for each in (*given, other)] == ["", "", ""]
    assert count([given[0], other], line) == 2
    assert count(given, line) == 1  # two certificates of one key
    assert count([given[0], person.approves()], line, person.line()) == 1
    assert count([given[0], other], line, f"*@x,*@y {ana.public}\n") == 1


def test_a_rule_gives_an_approval_less_time_than_it_names(ana: Person, bob: Person) -> None:
    rule = Rule.model_validate({"when": {"action": "delete"}, "from": 2, "valid": "2h"})
    old, new = ana.approves(), bob.approves(at=AT + HOUR)
    assert [len(in_force(rule, [old, new], AT + HOUR * hours)) for hours in (1, 2, 3)] == [2, 1, 0]


def test_a_missing_program_is_told(ana: Person, tmp_path: Path) -> None:
    given = ana.approves()
    with pytest.raises(ReconcilerError, match="no program `ssh-keygen`") as refused:
        why_dead(given, ABOUT, [signers([ana.line()])], AT, {"PATH": str(tmp_path)})
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
