"""The state in one SQLite file: the default, for one machine or one CI runner with a disk.

`store.py` is `state.log` over this file, with backups beside it. What it has of its own:

    bucket             the objects, as rows of tables; what is written at one moment is one transaction
    locks              who holds a lease: a byte of the lock file, which its process frees when it dies
    seen               the newest change that was acknowledged, beside the file: an older copy lacks it
    files, database    files that appear whole, and what SQLite says when it fails
    backups, restore, salvage   copies, and the way back with what a damaged file still proves
    older              files of older versions, read as `Contents`
"""
