"""Values to text: what a run found, planned and did, in the formats people and programs read."""
