"""From a tensor graph to finished chunks: decides where and when operands run, and computes no chunk.

lifecycle.py   the legal moves of an operand from state to state
assigner.py    chooses the worker of an operand by the place of its inputs
blame.py       operands that end workers
losses.py      chunks that are lost repeatedly
operand_rows.py   OperandActor: the operands of a job as rows of lists
remote_shard.py  a shard in another scheduler process, and its end
rendezvous.py  rendezvous hashing of operands to schedulers
shard.py       a shard of a job's operands: an OperandActor with ghosts of remote inputs
shards.py      a job's operands spread over several shards
picture.py     the graph for the live view
ranking.py     the order that a job runs in (Machine, rank_operands)
fitting.py     refuses operands that can never fit in memory
device_plan.py   cores or GPUs for the operands of a job
pins.py        workers that users annotated operands with
retries.py     how often an operand that raised is tried again (RetryRule)
prepare.py     compiles a graph, plans it and lays it out for workers
plan_size.py   bytes of a prepared graph
plans.py       prepared graphs by structure, to be run again
plan_links.py  the links between hosts that a plan uses
event_log.py   numbered events, bounded in memory (EventLog)
chunk_meta.py  the chunks of kept tensors (ChunkMetaActor)
scheduler_context.py   what all jobs of a cluster share
job_summaries.py   counts, measurements and errors of a job as plain data
job_warnings.py   warnings of a job's floating point errors, once for a line and kind
phases.py      the phases of a job's preparation
why.py         explains a job's state in a sentence
why_actor.py   gathers the facts for that sentence (WhyActor)
executables.py   an operand as a document that runs alone
watchdog.py    when to report jobs that do not move (Watchdog)
stages.py      the stages of a job with a graph that unfolds during the run
eta.py         remaining seconds of a stage (Eta)
progress.py    finished share of a job
plan_monitor.py   compares a run with its plan, and plans the rest anew
replanning.py  swaps such a plan into a running job
compile_submission.py   unpickles and prepares a submission
stage_listener.py   the stage's view of the job
stage_run.py   the operands of a stage while they run on the workers
open_stage.py  opens a stage on the workers
failed_stage_cleanup.py   releases a stage that failed by a fault of jmars
graph_actor.py   GraphActor: a job from submission to end
session_actor.py   SessionActor: the jobs of a cluster; takes the workers' reports
places.py      which hosts have each chunk (Places)
host_gpus.py   chooses hosts, and workers of a host, for operands of GPUs
host_jobs.py   a job on several hosts
balance.py     moves waiting operands to hosts without work (Balance)
host_links.py  bandwidth and latency between hosts (HostLinks)
elastic.py     how many hosts there should be (Elastic)
leaving.py     where the chunks of a host go that leaves, and who leaves (Evacuation)
host_rows.py   hosts and their jobs
host_reports.py   acts on reports of hosts (HostReports)
hosts.py       the workers of several hosts as one port (Hosts)
remote_workers.py  workers in another process: orders are messages
membership.py   hosts by their beats and their silence (Membership)
journal.py     an append-only file, from which the next scheduler resumes (Journal)
journaled.py   writes calls and reports to the journal (JournaledSession)
ended_stage.py   chunks and lengths of an ended stage (EndedStage)
stages_behind.py   the ended stages of a job, by the journal
resuming.py    resumes from the journal
task_manager.py   TaskManagerActor: jobs as Mars shows tasks
"""

from jmars.scheduler.event_log import EventLog
from jmars.scheduler.ranking import Machine
from jmars.scheduler.session_actor import SessionActor
from jmars.scheduler.task_manager import TaskManagerActor
from jmars.scheduler.why_actor import WhyActor

__all__ = ["EventLog", "Machine", "SessionActor", "TaskManagerActor", "WhyActor"]
