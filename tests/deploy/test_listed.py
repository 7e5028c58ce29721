"""Clients reach the methods that actors list, and no others."""

from types import SimpleNamespace

import pytest

from jmars.actors.dialogue import Mailbox, remote_method, remote_methods
from jmars.client.job_registry import JobRegistry
from jmars.deploy.clients import ClientHost, ClientSession, ClientStore, ClusterActor, EventsActor
from jmars.deploy.head import WhyService
from jmars.deploy.hosts_chunks import HostsChunks
from jmars.deploy.member import MemberActor
from jmars.deploy.roster import Seat
from jmars.deploy.scheduler_process import SchedulerProcess
from jmars.deploy.scheduler_subprocess import RelayedTasks
from jmars.errors import ActorNotFoundError
from jmars.notebook.server.discovery import _Reports
from jmars.scheduler import SessionActor, TaskManagerActor, WhyActor
from jmars.scheduler.journal import JournaledSession
from jmars.web.results import _Jobs
from jmars.worker.chunk_exchange import PeersActor, ServingActor
from jmars.worker.store import ChunkPiecesActor, ChunkTransferActor

SESSION = "submit cancel withdraw describe wait jobs take_chunks keep drop chunks"
LISTED = {
    ClientSession: f"{SESSION} attach forget call_me",
    ClientStore: "reserve seal abandon pin unpin",
    ClientHost: "ready descriptor ping info profile scale adapt evacuate ticket close",
    ClusterActor: "summary processes jobs cancel",
    EventsActor: "read",
    WhyService: "job cluster operand",
    ChunkTransferActor: "gather put",
    ChunkPiecesActor: "gather put put_piece abandon",
    HostsChunks: "gather put put_piece",
    ServingActor: "read",
    MemberActor: "start_again look info rest end",
    Seat: "join listens take carried costs warm read",
    PeersActor: "begin add dial drop",
    TaskManagerActor: "results result wait progress last_idle_time tileable_graph tileable_details tileable_subtasks",
    RelayedTasks: "results result wait progress last_idle_time tileable_graph tileable_details tileable_subtasks",
    WhyActor: "job cluster operand pulses expect stalled",
    JournaledSession: f"{SESSION} read",
    SchedulerProcess: "resume machine note plans ping",
    JobRegistry: "ended stalled scaled broken stopped",
}


def test_all_that_cluster_heads_tell_jobs_to_take_it():
    told = LISTED[JobRegistry].split()
    assert all(hasattr(kind, name) for kind in (_Reports, _Jobs) for name in told)


@pytest.mark.parametrize("actor", LISTED, ids=lambda actor: actor.__name__)
def test_an_actor_answers_what_it_lists(actor):
    assert remote_methods(object.__new__(actor)) == sorted(LISTED[actor].split())


@pytest.mark.parametrize(
    "method",
    [
        "begin_chunks",
        "register_job",
        "remember",
        "prepare",
        "report",
        "graph",
        "begin_anew",
        "run",
        "__init__",
        "_session",
    ],
)
@pytest.mark.parametrize("actor", [*LISTED, SessionActor], ids=lambda actor: actor.__name__)
def test_what_is_for_the_schedulers_own_process_is_not_reached(actor, method):
    mailbox = Mailbox()
    mailbox.add("one", object.__new__(actor))
    with pytest.raises(ActorNotFoundError):
        mailbox.find("one", method)


def test_an_attribute_that_happens_to_be_callable_is_no_method():
    mailbox = Mailbox()
    mailbox.add("one", SimpleNamespace(call=print))
    with pytest.raises(ActorNotFoundError, match="has no remote method 'call'; it has none"):
        mailbox.find("one", "call")


def test_a_method_of_a_base_class_stays_listed():
    class Base:
        @remote_method
        def ask(self):
            return 1

    class Derived(Base):
        pass

    assert remote_methods(Derived()) == ["ask"]
