"""The state in one SQLite file: the default, for one machine or one CI runner with a disk.

`store.py` is `state.log` over this file, with backups next to it. Its own parts:

    bucket             the objects, as rows of tables; what is written at one moment is one transaction
    locks              who holds a lease: a byte of the lock file, which its process frees when it dies
    seen               the newest change that was acknowledged, in a file of its own: older copies lack it
    files, database    files that appear whole, the fingerprint key; tables, connections, errors
    state_file, whole  the file of one state; a state as one piece: made, read, verified
    backups, restore, salvage   copies, and the way back with what a damaged file still proves
    older              files of older versions, read as `StateDump`
"""
