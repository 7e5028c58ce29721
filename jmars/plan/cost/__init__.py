"""Seconds and bytes of operands: learnt from runs, predicted where no run has measured them.

signature     the key under which operands of equal cost share their measurements
roofline      seconds of an operand that never ran, from bytes and operations
cost_table    measured seconds by key and size class
profile_file  the file that keeps measured costs between sessions
accuracy      errors of past predictions
profile       measured costs of this machine
gpu_seconds   seconds of operands on a GPU; this host with its GPUs as workers
annotate      a compiled graph with the costs of operands
"""
