"""Broken manifests, and what `reconcile validate` says of each: `golden.txt`, to the letter.

`python -m tests.manifests.broken` writes that file anew. Read its diff: is every place the smallest that
holds the mistake, and does the help lead out? Files that cannot be committed are made by `making.py`.
"""
