"""What programs that act for people get: tools that only read, and a guide (`SKILL.md`)."""

from importlib.resources import files


def guide() -> str:
    """The guide for agents, in Markdown with the front matter of a skill."""
    return files(__name__).joinpath("SKILL.md").read_text(encoding="utf-8")
