"""Chunks of operands: helpers for tiling, rechunking, shuffles, chunks of unknown length.

In reading order:

- tiling.py: chunk classes, corners, boxes
- shuffle.py: all-to-all exchange of elements between chunks
- parts.py: parts of a chunk, read in place
- rechunk.py: another division of an array into chunks
- slivers.py: chunks a few elements beside those of another array
- unknown_chunks.py: tiling of chunks of unknown length
"""
