"""Where a state can be kept: for each place, its objects (`Bucket`) and how it tells living holders."""
