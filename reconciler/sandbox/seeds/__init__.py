"""What a world can begin with: one module for each part of a seed, with its form and how it is planted."""
