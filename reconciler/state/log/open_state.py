"""All that works on one state, once its lineage is known."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from reconciler.core.clock import Clock
from reconciler.core.errors import StoreError
from reconciler.state.batching import Batching, in_thread
from reconciler.state.log.bucket import Bucket
from reconciler.state.log.commits import Committing, Request
from reconciler.state.log.damage import explained
from reconciler.state.log.head_writing import Heads
from reconciler.state.log.keys import Layout
from reconciler.state.log.lease_beats import Exclusion
from reconciler.state.log.lease_keeping import Keeping
from reconciler.state.log.lease_taking import Taking
from reconciler.state.log.root import Root
from reconciler.state.log.scope_state import ScopeSummary
from reconciler.state.log.scopes import Scopes
from reconciler.state.log.segments import Files
from reconciler.state.store import Lease


@dataclass(eq=False, slots=True)
class Check:
    """One call of `Store.check`, on its way to the worker thread and back.

    `failure`: what it raises; until it was asked, that nobody knows.
    """

    lease: Lease
    failure: StoreError | None = field(default_factory=lambda: StoreError("the lease could not be checked"))


class Opened:
    def __init__(
        self,
        bucket: Bucket,
        layout: Layout,
        clock: Clock,
        root: Root,
        *,
        exclusion: Exclusion,
        nonce: Callable[[], str],
    ) -> None:
        self._bucket = bucket
        self.layout = layout
        files = self.files = Files(bucket, layout)
        self.scopes = Scopes(bucket, layout, files, ScopeSummary(root.lineage, serial=root.least_serial))
        heads = self.heads = Heads(bucket, layout, self.scopes, nonce)
        self.keeping = Keeping(bucket, layout, clock, nonce, exclusion)
        self.taking = Taking(
            bucket, layout, clock, self.scopes, heads, environment=root.environment, exclusion=exclusion
        )
        self._committing = Committing(bucket, self.scopes, heads, files, self.keeping)
        self._commits: dict[str, Batching[Request]] = {}
        self.checks = Batching(in_thread(self._check, is_quick=bucket.is_quick))

    def commits_to(self, scope: str) -> Batching[Request]:
        """Where one request after another is sent, the commits of all scopes wait for one piece of work."""
        name = scope if self._bucket.at_once > 1 else ""
        if name not in self._commits:
            self._commits[name] = Batching(in_thread(self._commit, is_quick=self._bucket.is_quick))
        return self._commits[name]

    def _commit(self, batch: Sequence[Request]) -> None:
        groups: dict[str, list[Request]] = defaultdict(list)
        for request in batch:
            groups[request.wanted.scope].append(request)
        try:
            self._bucket.in_parallel(self._committing.commit, list(groups.values()))
        except StoreError as failure:
            self._commit_one_by_one(groups, failure)

    def _commit_one_by_one(self, groups: Mapping[str, Sequence[Request]], failure: StoreError) -> None:
        """Nothing of them is stored, whatever was taken for that; but one must not fail its neighbours."""
        try:
            with explained(self._bucket):
                self.scopes.read_again(groups)
        except StoreError:
            for request in chain(*groups.values()):
                request.outcome = failure
            return
        for group in groups.values():
            for request in group:
                request.outcome = None
            self._committing.commit(group)

    def _check(self, batch: Sequence[Check]) -> None:
        try:
            with explained(self._bucket):
                self.keeping.refresh([check.lease for check in batch])
        except StoreError as failure:
            for check in batch:
                check.failure = failure
        else:
            for check in batch:
                check.failure = None
