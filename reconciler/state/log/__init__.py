"""The one store: a state as a few objects, wherever conditional writes of single objects are to be had.

`store.py` is the `Store`. `bucket.py` says what it needs of a place, and `lease_beats.py` how a place tells
that a holder is alive; the places themselves are in `state/places/`.

    ENVIRONMENT/state.json    the root (`root.py`): lineage, key, which scopes there are; and GENERATION, with
    heads/SCOPE               where a scope stands, and its newest changes (`head.py`, `scopes.py`)
    journal/SCOPE/...         older changes, as files that are never changed (`segments.py`)
    base/SCOPE/...            what all changes up to one amount to: a reader begins there (`segments.py`)
    leases/ID                 a lease, and its holder's sign of life (`lease_beats.py`)

A commit is one conditional write, of the head: a holder that lost the scope meanwhile has another tag, and
writes nothing. What commits of one moment change stands in the head itself; now and then the holder moves it
to a segment. So a commit is one round trip, and costs the same however many records there are.

What else there is:

    bucket, writes                             an object: its key, conditional writes, and a store that lies
    leases, lease_beats                        a lease: taken, kept by its holder, its sign of life
    changes, scope_state                       changes, what they amount to, and which are allowed
    scopes, reading, open_state                what a process knows of a state, as of one moment; its commits
    moving, damage                             a state that moves, and one that is damaged
"""
