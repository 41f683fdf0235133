"""All that works on one state, once its lineage is known."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

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
        self.scopes = Scopes(bucket, layout, files, root.lineage)
        heads = self.heads = Heads(bucket, layout, self.scopes, nonce)
        self.keeping = Keeping(bucket, layout, clock, nonce, exclusion)
        self.taking = Taking(
            bucket, layout, clock, self.scopes, heads, environment=root.environment, exclusion=exclusion
        )
        self._committing = Committing(bucket.place, self.scopes, heads, files, self.keeping)
        self._commits: dict[str, Batching[Request]] = {}
        self.checks = Batching(in_thread(self._check, is_quick=bucket.is_quick))

    def commits_to(self, scope: str) -> Batching[Request]:
        serve = in_thread(self._committing.commit, is_quick=self._bucket.is_quick)
        return self._commits.setdefault(scope, Batching(serve))

    def _check(self, batch: Sequence[Check]) -> None:
        try:
            with explained(self._bucket.place):
                self.keeping.look([check.lease for check in batch])
        except StoreError as failure:
            for check in batch:
                check.failure = failure
        else:
            for check in batch:
                check.failure = None
