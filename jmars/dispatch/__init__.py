"""Dispatch on one host: which operand runs next, on which worker, in which batch.

worker_state.py    batches, known programs and state of each worker (Worker, Batch)
task_queue.py      ready operands, by job and rank (TaskQueue)
fair_share.py      shares the workers among running jobs (FairShare)
estimate.py        predicts the run time of operands from those that ran (Estimate)
state_times.py     how long operands were in the four states of a worker (StateTimes)
stragglers.py      finds operands to revoke or to copy (Stragglers)
ledger.py          measures what jobs took, for the view and for the cost profile (Ledger)
"""
