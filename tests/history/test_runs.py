"""What a journal says of the runs in it, also one that an older program wrote or a dead one left."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from reconciler.core.model import Address
from reconciler.reports.history import decided
from reconciler.state.runs import History, PastRun, history_of
from reconciler.state.store import Event, JournalEntry, Run
from tests.state.worlds import DATA, NOON, entry

LOGS = Address("Volume", "logs", "shop")
SENT: dict[str, Any] = {"method": "POST", "path": "/v1/apps/shop/volumes", "service": "platform"}


def began(run: str = "r1", **data: Any) -> JournalEntry:
    return JournalEntry(run, Event.RUN_STARTED, NOON, data={**Run("p1", actor="ana").to_json(), **data})


def ended(run: str = "r1", **data: Any) -> JournalEntry:
    return JournalEntry(run, Event.RUN_FINISHED, NOON + timedelta(seconds=9), data=data)


def decision(run: str = "d1", address: Address | None = DATA, **data: Any) -> JournalEntry:
    return JournalEntry(run, Event.DECIDED, NOON, address, data=data)


def history(*entries: JournalEntry, scope: str = "shop") -> History:
    return history_of((scope, each) for each in entries)


def only(*entries: JournalEntry) -> PastRun:
    (run,) = history(*entries).runs
    return run


def outcomes(*entries: JournalEntry) -> list[str]:
    return [call.outcome for call in only(began(), *entries).calls]


def test_a_call_has_the_outcome_that_was_recorded() -> None:
    sent = entry(Event.INTENT, **SENT)
    assert outcomes(sent) == ["unknown"]
    assert outcomes(sent, entry(Event.UNKNOWN, error="lost")) == ["unknown"]
    assert outcomes(sent, entry(Event.DONE, id="vol_1")) == ["done"]
    assert outcomes(sent, entry(Event.FAILED, error="no", status=422)) == ["failed"]
    assert outcomes(sent, entry(Event.SETTLED, id="vol_1", inferred=True)) == ["done"]
    assert outcomes(sent, entry(Event.SETTLED, landed=False)) == ["not-landed"]
    assert outcomes(sent, entry(Event.SETTLED, absolute=True)) == ["repeatable"]
    again = [entry(Event.INTENT, attempt=2, **SENT), entry(Event.DONE, attempt=2)]
    assert outcomes(sent, entry(Event.SETTLED, landed=False), *again) == ["not-landed", "done"]


def test_what_is_waited_for_does_not_change_a_calls_outcome() -> None:
    done = [began(), entry(Event.INTENT, **SENT), entry(Event.DONE, id="vol_1")]
    waited = only(*done, entry(Event.PENDING, seen="creating"))
    assert [(each.outcome, each.id) for each in waited.calls] == [("done", "vol_1")]
    assert [each.seen for each in waited.waits] == ["creating"]
    assert [each.seen for each in only(*done, entry(Event.DONE, reached=True)).waits] == [""]


def test_a_run_ends_as_it_said_itself() -> None:
    def word(*entries: JournalEntry, running: bool = False) -> str:
        return only(began(), *entries).ended(running=running)

    assert word(ended(outcomes={"done": 2})) == "done"
    assert word(ended(outcomes={})) == "done"  # records alone were changed
    assert word(ended(outcomes={"done": 2, "skipped": 1})) == "not-converged"
    assert word(ended(outcomes={"done": 2, "skipped": 1}, interrupted=True)) == "interrupted"
    assert word() == "cut-off"
    assert word(running=True) == "running"


def test_a_run_of_several_scopes_ends_with_the_last_of_them() -> None:
    both = [("shop", began()), ("blog", began()), ("shop", ended(outcomes={}))]
    (cut,) = history_of(both).runs
    assert (cut.scopes, cut.ended_at, cut.ended()) == (["shop", "blog"], None, "cut-off")
    (whole,) = history_of([*both, ("blog", ended(outcomes={}))]).runs
    assert whole.ended() == "done"


def test_a_run_of_an_older_program_is_told_from_its_calls() -> None:
    older = JournalEntry("r1", Event.RUN_STARTED, NOON, data={"plan": "p1"})
    sent = entry(Event.INTENT, **SENT)
    finished = JournalEntry("r1", Event.RUN_FINISHED, NOON)
    run = only(older, sent, entry(Event.FAILED, error="no"), finished)
    assert (run.began, run.outcomes, run.ended()) == (Run("p1"), {"failed": 1}, "not-converged")
    assert only(older, sent, entry(Event.DONE), finished).ended() == "done"
    assert only(sent).began == Run("")  # its beginning is in no entry that is left


def test_what_a_newer_program_wrote_otherwise_is_left_out() -> None:
    strange: Mapping[str, Any] = {
        "changes": {"create": "x"},
        "outcomes": "many",
        "owed": {"a": 1},
        "dirty": "very",
    }
    run = only(began(**strange), ended(**strange))
    assert (run.changes, run.outcomes, list(run.owed), run.began.dirty) == ({}, {}, [], None)
    assert decided(history(decision(newer=[1], by="ana")).decisions[0]) == '{"newer": [1]}'


def test_a_person_who_settles_a_call_is_named_with_the_run_and_by_time() -> None:
    said = replace(entry(Event.SETTLED, landed=False, by="ben"), at=NOON + timedelta(days=1))
    found = history(began(), entry(Event.INTENT, **SENT), said)
    assert [(each.run, each.data["by"]) for each in found.decisions] == [("r1", "ben")]
    assert found.runs[0].calls[0].settled == {"landed": False, "by": "ben"}
    evidence = history(began(), entry(Event.INTENT, **SENT), entry(Event.SETTLED, id="vol_1", inferred=True))
    assert evidence.decisions == []


def test_decisions_inside_a_run_are_that_runs() -> None:
    found = history(
        began(), decision("r1", to="Volume/shop/logs", id="vol_1"), decision("d2", forget="vol_2")
    )
    assert [each.data for each in found.runs[0].decisions] == [{"to": "Volume/shop/logs", "id": "vol_1"}]
    assert [each.run for each in found.decisions] == ["d2"]


def test_each_decision_is_said_in_words() -> None:
    for data, words in (
        ({"landed": False, "forced": True}, "the call for Volume/shop/data made nothing, by force"),
        ({"id": "vol_1"}, "Volume/shop/data is vol_1"),
        ({"dismissed": ["vol_1", "vol_2"]}, "vol_1, vol_2 may exist beside Volume/shop/data"),
        ({"forget": "vol_1"}, "the record of Volume/shop/data (vol_1) was dropped"),
        ({"id": "vol_1", "restarted": True}, "the restart owed for Volume/shop/data is done"),
        ({"platform": "https://p.example"}, "the state is about the platform at https://p.example"),
        ({"unlock": "shop", "holder": "ben@host"}, "shop was unlocked, held by ben@host"),
        ({"restored": "b.db", "salvaged": 2, "unclaimed": "x"}, "the state was restored from b.db"),
    ):
        assert decided(history(decision(**data, by="ana")).decisions[0]) == words
