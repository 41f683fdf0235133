"""How much YAML one file may hold. No manifest needs as much; a bomb needs more."""

MOST_DEPTH = 64
MOST_DOCUMENT_EVENTS = 20_000  # a key, a value, either end of a list or mapping: an event each
MOST_FILE_EVENTS = 500_000
MOST_DOCUMENTS = 20_000
MOST_PROBLEMS = 20
