"""`python -m jmars replay FILE [OTHER]`: tells of runs that `Job.save` wrote; `--page` shows them over time."""

from __future__ import annotations

import argparse
import sys

from jmars.errors import JmarsError
from jmars.notebook.replay import Replay, open_replay


def main(arguments: list[str]) -> int:
    """Print the summary of one run or two, or write a page or report; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m jmars replay", description=__doc__)
    parser.add_argument("file", help="written by job.save(file)")
    parser.add_argument("other", nargs="?", help="a second run, to show beside the first")
    parser.add_argument(
        "--page", metavar="PAGE.html", help="write a page with a slider over time, which needs nothing else"
    )
    parser.add_argument("--report", metavar="PAGE.html", help="write a report of one run, which needs Bokeh")
    options = parser.parse_args(arguments)
    try:
        found = open_replay(*(path for path in (options.file, options.other) if path is not None))
        if options.report and not isinstance(found, Replay):
            raise JmarsError("a report is of one run; leave out the second file, or write a page by --page")
        if options.page:
            found.page(options.page)
        if options.report and isinstance(found, Replay):
            found.report(options.report)
    except (JmarsError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{found.summary()}\n")
    return 0
