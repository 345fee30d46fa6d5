"""A part of the report."""

from dataclasses import dataclass

from loadtests.results import markdown
from loadtests.results.drawing import Plot

FOLDER = "results"
"""Where plots lie, seen from the report."""


@dataclass(frozen=True, slots=True)
class Section:
    """A title, paragraphs of Markdown in order, and the plots that they show."""

    title: str
    paragraphs: tuple[str, ...]
    plots: tuple[Plot, ...] = ()

    @property
    def text(self) -> str:
        """The section as Markdown, without a line end behind it."""
        return "\n\n".join((f"## {self.title}", *self.paragraphs))


def pictures(plots: tuple[Plot, ...]) -> str:
    """The plots below each other, as a paragraph."""
    return "\n\n".join(markdown.picture(plot, FOLDER) for plot in plots)


def missing(title: str, file: str, command: str) -> Section:
    """A section whose measurement was not made: how to make it."""
    return Section(title, (f"**Not measured yet.** `{command}` writes `docs/results/{file}`.",))
