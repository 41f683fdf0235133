"""Values to text: what the verbs found and did, for people and for programs. Nothing here prints."""
