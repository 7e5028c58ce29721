"""Dispatch on a host: chooses the next operands, workers and batches.

- workers.py: workers and batches, plain records (Worker, Batch)
- task_queue.py: ready operands, by job and rank (TaskQueue)
- gpu_orders.py: operands for workers with a GPU, and their slots there
- ledger.py: measures jobs (Ledger)
- dispatcher.py: fills the workers' windows with batches (Dispatcher)
- speculation.py: revokes batches and starts speculative copies (SpeculativeExecution)
- report_handler.py: acts on the reports of executors (ReportHandler)
- output_reports.py: reports what functions print, bounded (OutputReports)
- host_dispatch.py: the interface that other folders call (HostDispatch); workers that come and leave (WorkerScaling)
"""

from jmars.dispatch.host_dispatch import HostDispatch

__all__ = ["HostDispatch"]
