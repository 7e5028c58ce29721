"""From a tensor graph to finished chunks: decides what runs where and when; computes nothing.

lifecycle.py   the legal moves of an operand from state to state
assigner.py    which worker runs an operand whose inputs are there (AssignerActor)
blame.py       which operand ends workers
losses.py      which chunk is lost again and again
operand.py     OperandActor: the operands of one job as rows of lists
rendezvous.py  which scheduler holds which operand, hashed over all at once
shard.py       one shard of a job's operands: an OperandActor with ghosts of what it reads from others
shards.py      a job's operands spread over several shards, which exchange only what crosses
picture.py     what the live view is told of a graph
ranking.py     the order that a job runs in (Machine, rank_operands)
fitting.py     whether each operand fits in memory at all
prepare.py     a submitted graph compiled, planned and laid out for workers
plans.py       what was prepared, by structure, to be run again
event_log.py   what happened, numbered and bounded (EventLog)
chunk_meta.py  which chunks make up a tensor that is kept (ChunkMetaActor)
surroundings.py  what all jobs of a cluster have in common
telling.py     what a job tells of its operands and errors, as plain data
phases.py      what a job's preparation is at
why.py         why a job stands as it does, in one sentence
reasons.py     what that sentence is made from (WhyActor)
executables.py  one operand as a document that runs apart
watchdog.py    when to say that nothing moves (Watchdog)
stages.py      the stages of one job, for graphs that unfold while they run
eta.py         how many seconds a stage may still need (Eta)
progress.py    how much of a job is done
watching.py    whether a run goes as planned, and another plan for its rest
replanning.py  a job that is watched, and that plan swapped in
preparing.py   what was submitted, ready to run for the first time
owner.py       a job as its stage sees it
stage_run.py   the operands of one stage while they run on the workers
remains.py     what stands for a stage that failed by our own fault
graph.py       GraphActor: one job from submission to its end
service.py     SessionActor: jobs of a cluster, and the port that workers report to
remote_workers.py  workers in another process: each order a message (RemoteWorkers)
journal.py     what a scheduler must know to go on where another stopped, in a file (Journal)
journaled.py   a session whose life is written there
resuming.py    a scheduler that goes on by it
tasks.py       TaskManagerActor: jobs as Mars shows tasks
"""

from jmars.scheduler.event_log import EventLog
from jmars.scheduler.ranking import Machine
from jmars.scheduler.reasons import WhyActor
from jmars.scheduler.service import SessionActor
from jmars.scheduler.tasks import TaskManagerActor

__all__ = ["EventLog", "Machine", "SessionActor", "TaskManagerActor", "WhyActor"]
