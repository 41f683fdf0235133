"""For those who write an extension provider: the kit to build one with, and the check that proves it."""
