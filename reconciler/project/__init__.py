"""What the verbs do, each on half a screen: the command line and later the controller call these.

Reading verbs take no lock and write nothing. `apply` shows its plan, takes the leases of
the scopes that the plan changes, finds everything as the plan saw it, and only then sends.
"""
