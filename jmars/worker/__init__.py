"""The workers of one host.

zygote.py      a single-threaded child that forks executors, so that a new one takes milliseconds
executor.py    the executor process: runs kernels on shared memory, batch by batch
private.py     operands whose chunks have no known size, as an executor runs them
granted.py     the cap on what a user's function may take in its executor (Granted)
meter.py       what an executor's time was spent on beside computing (Meter)
mover.py       the mover process: writes chunks to disk and reads them back
queue.py       operands that wait, by job and rank (TaskQueue)
turns.py       whose turn it is where several jobs wait
quota.py       scratch memory promised to running operands (Quota)
estimate.py    how long an operand will run, learnt from those that ran; how many go in one batch
links.py       the control process's end of each child process
crew.py        the executors: what each was sent, which programs it knows
uses.py        when each chunk is read next
mover_link.py  the mover as the control process sees it (MoverLink)
requests.py    what stands in the line for memory, and a disk that refuses, as plain records
gathering.py   pieces of many chunks put one behind the other in memory of one operand's own
storing.py     brings inputs into memory and makes room for outputs
levels.py      how many bytes lie on each of the levels of memory
ledger.py      what jobs took, for the view and for the profile of costs (Ledger)
sizing.py      places for results whose size is known only after running
grants.py      how much memory users' functions are granted (Grants)
states.py      how long operands were in the four states of a worker (States)
admission.py   who may run next: inputs in memory, room for output and scratch
standing.py    how this host stands at one moment, for who asks why nothing moves
told.py        what storage finds out, told to the scheduler as facts of operands
hosted.py      the open jobs, and the host as the parts below see it (Hosted, Workplace)
dispatching.py  fills the workers' windows with batches
reporting.py   what executors report, put in the books
health.py      which processes do not run though they live, and what to do about each (Health)
vitals.py      what the system says of processes
begging.py     which processes ask for memory in vain, for ever (Begging)
claims.py      by which a batch that was sent and not begun can be taken back (Claims)
stragglers.py  which operands should run elsewhere, and be copied (Stragglers)
rescue.py      has them run elsewhere (Rescue)
keeping.py     what users' functions leave behind in executors, and which of these are replaced for it (Keeping)
graph_room.py  what graphs take in the control process, promised to it while jobs run (GraphRoom)
care.py        the processes of a host: started, looked after, found dead or stopped, and replaced
execution.py   ExecutionActor: coordinates the above for every operand
store.py       StoreActor: chunks that the client writes and reads in place
announcing.py  what a host tells a new scheduler (Announcement)
remote_scheduler.py  a scheduler in another process: each report a message (RemoteScheduler)
passing.py     PassingActor: chunks that a client reads and writes by messages
"""

from jmars.worker.execution import ExecutionActor
from jmars.worker.zygote import Zygote, start_zygote

__all__ = ["ExecutionActor", "Zygote", "start_zygote"]
