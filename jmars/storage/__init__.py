"""Where chunks lie on one host: shared memory first, disk when that is full.

arena.py     slots of one shared memory mapping, given out by the control process alone
chunks.py    which chunk lies in which slot or file, and which one to spill
spill.py     chunks written to files and read back, as a whole or in part, with checksums
travelling.py  chunks that travel as messages, with checksums
"""

from jmars.storage.arena import Arena
from jmars.storage.chunks import Chunks, Place
from jmars.storage.spill import Span, read_chunk, write_chunk

__all__ = ["Arena", "Chunks", "Place", "Span", "read_chunk", "write_chunk"]
