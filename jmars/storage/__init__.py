"""Storage of chunks on one host: shared memory first, disk when that is full.

- arena.py: slots of a shared memory mapping
- chunks.py: the slot or file of every chunk, and which chunks to spill
- spill.py: writes chunks to files and reads them back, with checksums
"""

from jmars.storage.arena import Arena
from jmars.storage.chunks import Chunks, SpillFile
from jmars.storage.spill import Span, read_chunk, write_chunk

__all__ = ["Arena", "Chunks", "Span", "SpillFile", "read_chunk", "write_chunk"]
