"""The child processes of a host: what they run, and how they are forked and spoken to.

- vitals.py: reads the state and the memory of processes from /proc
- rlimit_guard.py: caps the memory of a user's function in an executor (RlimitGuard)
- executor_messages.py: messages between the control process and an executor
- output.py: the output of functions in executors, which goes through a pipe, and its reader
- executor.py: the executor process, which runs kernels on shared memory
- gpu_batches.py: batches on a GPU, in the process of the GPU
- carrier.py: the carrier process, which brings chunks of other hosts
- zygote.py: forks executors in milliseconds (Zygote); the mover, which writes chunks to disk and reads them back
- links.py: the control process's ends of child processes (ChildLink, Children)
"""
