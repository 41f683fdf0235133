"""What the platform is made of: one module for each part, with its rules, routes and transitions."""
