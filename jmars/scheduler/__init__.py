"""From a tensor graph to finished chunks: decides where and when operands run, and computes no chunk.

lifecycle.py   the legal moves of an operand from state to state
operand_rows.py   OperandActor: the operands of a job as rows of lists
shards.py      a job's operands spread over several shards
ranking.py     the order that a job runs in (Machine, rank_operands)
prepare.py     compiles a graph, plans it and lays it out for workers
plans.py       prepared graphs by structure, to be run again
event_log.py   numbered events, bounded in memory (EventLog)
scheduler_context.py   what all jobs of a cluster share
job_summaries.py   counts, measurements and errors of a job as plain data
why.py         explains a job's state in a sentence
stages.py      the stages of a job with a graph that unfolds during the run
progress.py    finished share of a job
replanning.py  compares a run with its plan, and swaps in a new plan
stage_run.py   the operands of a stage while they run on the workers
graph_actor.py   GraphActor: a job from submission to end
session_actor.py   SessionActor: the jobs of a cluster; takes the workers' reports
host_jobs.py   a job on several hosts
host_links.py  bandwidth and latency between hosts (HostLinks)
elastic.py     how many hosts there should be (Elastic)
hosts.py       the workers of several hosts as one port (Hosts), and the places of chunks
membership.py   hosts by their beats and their silence (Membership)
journal.py     an append-only file, from which the next scheduler resumes (Journal)
resuming.py    resumes from the journal
task_manager.py   TaskManagerActor: jobs as Mars shows tasks
"""

from jmars.scheduler.event_log import EventLog
from jmars.scheduler.ranking import Machine
from jmars.scheduler.session_actor import SessionActor
from jmars.scheduler.task_manager import TaskManagerActor
from jmars.scheduler.why import WhyActor

__all__ = ["EventLog", "Machine", "SessionActor", "TaskManagerActor", "WhyActor"]
