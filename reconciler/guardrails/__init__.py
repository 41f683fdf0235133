"""Guardrails: limits that are written down, reviewed, and decided before the first call.

`limit.py`: one of them as a value, and which files count. `kinds.py`: what their files may say.
`engine.py`: the only module that knows the engine of expressions. `variables.py`: the names and types that
expressions may use. `rules.py`: judges a plan.
"""

LEVELS = ("advisory", "overridable", "mandatory")  # of a rule, the strictest last
