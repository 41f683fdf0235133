"""A state whose names and contents are encrypted, in whatever place it is kept.

`SealedBucket` stands between the one store and a place: what the store writes is sealed there, and what it
reads is opened. So the store works on plain names and values, and the place holds none of them.

    bucket.py      the bucket that seals and opens: keys of objects, heads line by line, all else as a whole
    cipher.py      one content key: tokens for names, sealed texts; and the keys, encrypted to age recipients
    problems.py    what is refused, and why
"""
