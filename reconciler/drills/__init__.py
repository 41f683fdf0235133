"""Restore drills: what they found (`results.py`), and what they look at in a restored cluster (`checks/`).

`policies/drill.py` says what a manifest may say, and `project/drill.py` runs one.
"""
