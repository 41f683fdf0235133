"""Kill enumeration: real applies, struck at each boundary by KILL, TERM or INT, then run again and judged.

`python -m tests.reliability.kills --all --jobs 2` runs every point with every signal and prints a table;
`--sample 60` a seeded sample; `--point NAME --signal KILL` one case again.
"""
