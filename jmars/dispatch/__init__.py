"""Dispatch on a host: chooses the next operands, workers and batches.

- workers.py: workers and batches, plain records (Worker, Batch)
- programs.py: numbers programs over all jobs (ProgramTable)
- stop_flags.py: a stop flag for each open job, in shared memory (StopFlags)
- open_jobs.py: open jobs by name and number (OpenJobs)
- offers.py: offers of operands to several workers, the first takes one (Offers)
- task_queue.py: ready operands, by job and rank (TaskQueue)
- gpu_orders.py: operands for workers with a GPU, and their slots there
- placement.py: chooses the queue of an operand (Placement)
- gpu_refusals.py: operands that a GPU cannot run (GpuRefusals)
- fair_share.py: shares the workers among running jobs (FairShare)
- estimate.py: predicts the run time of operands (Estimate)
- state_times.py: how long operands were in the four states of a worker (StateTimes)
- ledger.py: measures jobs (Ledger)
- dispatcher.py: fills the workers' windows with batches (Dispatcher)
- stragglers.py: finds operands to revoke and to copy (Stragglers)
- speculation.py: revokes batches and starts speculative copies (SpeculativeExecution)
- recycling.py: replaces executors for the memory that they retained (WorkerRecycling)
- worker_scaling.py: workers that come and leave (WorkerScaling)
- report_handler.py: acts on the reports of executors (ReportHandler)
- batch_recovery.py: recovers the batches of executors that died (BatchRecovery)
- host_dispatch.py: the interface that other folders call (HostDispatch)
"""

from jmars.dispatch.host_dispatch import HostDispatch

__all__ = ["HostDispatch"]
