"""The platform itself: its paths, its rate actions and the JSON it speaks."""
