"""Python functions as operands, and picklable objects as chunks.

function_blobs.py  pickles functions once, as long as nothing that they use has changed
packing.py         pickles objects to the bytes of a chunk, and back
spawn_operand.py   `Spawn` calls a function, `FromSpawned` makes a tensor of a returned array
handles.py         `spawn`, and the handles of results: `Spawned`, `Output`
"""

from jmars.tensor.spawn.handles import Output, Spawned, spawn

__all__ = ["Output", "Spawned", "spawn"]
