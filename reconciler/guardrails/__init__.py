"""Guardrails: limits that are written down, reviewed, and decided before the first call.

`limit.py`: one of them as a value. `kinds.py`: what their files may say. `files.py`: which files count.
`engine.py`: the only module that knows the engine of expressions. `variables.py`: the names and types that
expressions may use. `rules.py`: judges a plan.
"""

LEVELS = ("advisory", "overridable", "mandatory")  # of a rule, the strictest last
EXTRA = "reconciler[policy]"
