"""Runs by itself: looks at every scope on a schedule, does what it may, and proposes the rest.

A look is what `reconcile plan` and `reconcile drift` do, an apply what `reconcile apply --plan` does: nothing
here plans, compares or sends in a way of its own.
"""
