"""Arrays read from files and functions, and written to files.

In reading order:

- npy.py: `.npy` files
- from_blocks.py: arrays whose chunks a function reads
"""
