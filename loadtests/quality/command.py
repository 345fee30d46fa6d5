"""What `python -m loadtests.quality` does: serve a model, fill the grid, end with a table."""

import sys
from collections.abc import Sequence

import httpx
from rich.console import Console

from cache.head_profile import HeadProfileError
from loadtests.entry import INTERRUPTED
from loadtests.quality.cells import Cells
from loadtests.quality.dataset_error import DatasetError
from loadtests.quality.grid import GridError
from loadtests.quality.measurement import Measurement, QualityError
from loadtests.quality.observations import ObservationError, read
from loadtests.quality.options import Options
from loadtests.quality.store import SettingError
from loadtests.quality.table import table
from server.default_model import DefaultModelError
from server.haystack import SamplesError
from server.likelihood import LikelihoodError
from server.model_folder import ModelFolderError
from server.overlap import OverlapError

WIDTH = 140
"""Columns that the table needs, also where it goes into a file."""

REFUSALS = (
    QualityError,
    DatasetError,
    GridError,
    SettingError,
    ObservationError,
    OverlapError,
    SamplesError,
    ModelFolderError,
    DefaultModelError,
    HeadProfileError,
    OSError,
)
FAILURES = (LikelihoodError, SamplesError, httpx.HTTPError, RuntimeError, OSError)


def main(arguments: Sequence[str]) -> int:
    """Measures until the time is over or the user interrupts, then prints the table; the exit status.

    Raises KeyboardInterrupt where there is no file yet.
    """
    options = Options.parse(arguments)
    try:
        measurement = Measurement(options)
    except REFUSALS as error:
        print(f"quality: {error}", file=sys.stderr)
        return 2
    status, ended = 0, ""
    try:
        measurement.run()
    except KeyboardInterrupt:
        status, ended = INTERRUPTED, "interrupted"
    except FAILURES as error:
        # httpx's have no message where a connection breaks.
        said = str(error) or repr(error)
        print(f"quality: {said}", file=sys.stderr)
        status, ended = 1, said.partition("\n")[0]
    console = Console()
    console.width = max(console.width, WIDTH)
    console.print(table(Cells(read(measurement.store.path))))
    print(f"{len(measurement.store.seen)} observations in {measurement.store.path}")
    if ended:
        print(f"Ended early: {ended}; the same command goes on.")
    return status
