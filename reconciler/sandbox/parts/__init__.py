"""The parts of the platform: one module for a part, with its rules, routes, transitions and seeds."""
