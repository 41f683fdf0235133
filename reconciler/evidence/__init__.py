"""What the journal proves of a run: as a case that is played again, and as a bundle that anybody verifies."""
