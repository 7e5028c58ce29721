"""`python -m jmars replay FILE`: tells of a run that `Job.save` wrote; `--report PAGE.html` writes its report."""

from __future__ import annotations

import argparse
import sys

from jmars.errors import JmarsError
from jmars.reports.saved_run import SavedRun

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    """Print the summary of a run, or write the report; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m jmars replay", description=__doc__)
    parser.add_argument("file", help="written by job.save(file)")
    parser.add_argument("--report", metavar="PAGE.html", help="write a report, which needs Bokeh")
    options = parser.parse_args(arguments)
    try:
        run = SavedRun(options.file)
        if options.report:
            run.report(options.report)
    except (JmarsError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{run.summary()}\n")
    return 0
