"""A state whose names and contents are encrypted, in whatever store it lies.

`store.py` is a wrapper around any backend. What the backend gets, it keeps as it keeps a plain state: names
(scopes, addresses, ids, runs) became tokens, and the data of entries and records became text that nobody
reads without the content key. So chains, serials, epochs and conditional writes work as before, and hashes
are hashes of what is encrypted.

    cipher.py      one content key: tokens for names, sealed texts
    sealing.py     journal entries and records, sealed and opened
    envelope.py    the content key itself, encrypted to age recipients: it stands in the place of the plain
                   state's fingerprint key, and holds that one, too
    contents.py    whole states, for moves, restores and `state rekey`
"""
