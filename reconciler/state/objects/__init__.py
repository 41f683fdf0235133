"""The state in an object store: S3, Google Cloud Storage or Azure, and whatever speaks like one of them.

`store.py` is the `Store`. `bucket.py` says what it needs of an object store, `driver.py` gives it by obstore.

    ENVIRONMENT/state.json    the root (`root.py`): lineage, key, which scopes there are; and GENERATION, with
    heads/SCOPE               where a scope stands, and its newest changes (`head.py`)
    journal/SCOPE/...         older changes, as files that are never changed (`segments.py`)
    base/SCOPE/...            what all changes up to one amount to, so that a reader begins there
    leases/ID                 a lease, and its holder's sign of life (`beats.py`)

A commit is one conditional write, of the head: a holder that lost the scope meanwhile has another tag, and
writes nothing. What commits of one moment change stands in the head itself; now and then the holder moves it
to a segment. So a commit is one round trip, and costs the same however many records there are.
"""
