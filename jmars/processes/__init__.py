"""The child processes of a host: forked, spoken to, watched, replaced.

- batch_semaphore.py: revokes dispatched batches (BatchSemaphore)
- allocation_livelock.py: detects processes that retry a failing malloc for ever (AllocationLivelockDetector)
- health.py: decides when a stopped or frozen process is suspect, killed or given up (Health)
- vitals.py: reads the state and the memory of processes from /proc
- meter.py: separates computing from page faults and from waiting for a core (Meter)
- rlimit_guard.py: caps the memory of a user's function in an executor (RlimitGuard)
- executor_messages.py: messages between the control process and an executor
- unsized_runner.py: runs operands with chunks of unknown size (UnsizedRunner)
- executor.py: the executor process, which runs kernels on shared memory
- gpu_batches.py: batches on a GPU, in the process of the GPU
- mover.py: the mover process, which writes chunks to disk and reads them back
- carrier.py: the carrier process, which brings chunks of other hosts
- zygote.py: forks executors in milliseconds (Zygote)
- links.py: the control process's ends of child processes (ChildLink, Children)
- supervision.py: samples processes, kills hung ones, replaces executors that end (ProcessSupervisor)
"""
