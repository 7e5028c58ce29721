"""Any Python function as an operand, and any picklable object as a chunk.

packing.py   objects as the bytes of one chunk, and back
spawn_operand.py   the operands: `Spawn` calls a function, `FromSpawned` cuts an array that one gave
handles.py   what users hold: `spawn`, `Spawned`, `Output`
"""

from jmars.tensor.spawn.handles import Output, Spawned, spawn

__all__ = ["Output", "Spawned", "spawn"]
