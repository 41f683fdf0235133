"""Carries out the verbs: the command line calls these modules, and later the controller.

Reading verbs take no lock and write nothing. `apply` shows its plan, takes the leases of
the scopes that the plan changes, finds everything as the plan saw it, and only then sends.
"""
