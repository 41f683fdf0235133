"""Machines of others, whose power a manifest may keep: started, suspended or stopped."""
