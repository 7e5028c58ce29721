"""`python -m jmars operand FILE INPUT.npy …`: runs one operand, written by `Job.operand`, apart from any cluster."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

import numpy as np

from jmars.errors import JmarsError
from jmars.kernels import run_executable


def main(arguments: Sequence[str]) -> int:
    """Run the operand; returns the exit status.

    Parameters
    ----------
    arguments
        The document, its inputs as .npy files in the order of its Fetch nodes, and `-o` for the result.
    """
    parser = argparse.ArgumentParser(prog="python -m jmars operand", description=__doc__.splitlines()[0])
    parser.add_argument("file", help="JSON of Job.operand; it holds a pickle: run only what you made")
    parser.add_argument("inputs", nargs="*", help=".npy files, one for each Fetch node in its order")
    parser.add_argument("-o", "--output", help="where the chunk goes as .npy; it is described only, without")
    given = parser.parse_args(arguments)
    try:
        with open(given.file) as file:
            document = json.load(file)
        found = run_executable(document, [np.load(path, allow_pickle=False) for path in given.inputs])
    except (JmarsError, OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if given.output:
        np.save(given.output, found, allow_pickle=False)
    about = document["about"]
    sys.stdout.write(f"{about.get('words', 'operand')} gave {found.dtype} of shape {found.shape}\n")
    return 0
