"""Secret values: where they come from, how they are compared, and how they stay out of sight."""
