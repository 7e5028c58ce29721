"""The child processes of a host: forked, spoken to, watched, replaced.

batch_semaphore.py       revokes dispatched batches (BatchSemaphore)
allocation_livelock.py   detects processes that retry a failing malloc for ever (AllocationLivelockDetector)
health.py                detects hung processes and chooses an action for each (Health)
vitals.py                reads the state and the memory of processes from /proc
meter.py                 separates computing from page faults and from waiting for a core (Meter)
rlimit_guard.py          caps the memory of a user's function in its executor (RlimitGuard)
unsized_runner.py        runs operands whose output size is known only afterwards (UnsizedRunner)
executor.py              the executor process: runs kernels on shared memory, batch by batch
mover.py                 the mover process: writes chunks to disk and reads them back
zygote.py                a single-threaded process that forks executors in milliseconds (Zygote)
links.py                 the control process's end of each child process (ChildLink, Children)
"""
