"""Clients reach the methods that actors list, and no others."""

from types import SimpleNamespace

import pytest

from jmars.actors.dialogue import Mailbox, remote_method, remote_methods
from jmars.client.job_registry import JobRegistry
from jmars.deploy.clients import ClientSession, ClientStore
from jmars.deploy.head import ClientHost, ClusterActor, ClusterHead, WhyService
from jmars.deploy.host import Host
from jmars.deploy.member import Member
from jmars.deploy.roster import HostsChunks, Seat
from jmars.deploy.scheduler_process import SchedulerProcess
from jmars.errors import ActorNotFoundError
from jmars.notebook.server.discovery import _Reports
from jmars.scheduler import SessionActor, TaskManagerActor, WhyActor
from jmars.scheduler.journal import JournaledSession
from jmars.web.results import _Jobs
from jmars.worker.chunk_exchange import ChunkExchange, ServingActor
from jmars.worker.store import ChunkTransferActor, StoreActor

SESSION = "submit cancel withdraw demand describe wait arrived jobs read take_chunks keep drop chunks unreadable"
LISTED = {
    SessionActor: SESSION,
    ClientSession: "submit attach forget call_me take_chunks keep drop find_values take_values lost forget_values",
    ClientStore: "abandon pin unpin",
    ClientHost: "ready ping close",
    Host: "descriptor info profile scale adapt evacuate ticket",
    ClusterActor: "summary processes jobs cancel",
    WhyService: "job cluster operand",
    StoreActor: "reserve seal abandon",
    ChunkTransferActor: "gather put",
    HostsChunks: "gather put",
    ServingActor: "read",
    Member: "start_again look info end",
    Seat: "join listens take carried costs warm read",
    ChunkExchange: "begin add_peer dial drop_peer",
    TaskManagerActor: "results result wait last_idle_time tileable_graph tileable_details tileable_subtasks",
    WhyActor: "job cluster operand pulses expect stalled",
    JournaledSession: "submit cancel withdraw keep drop",
    SchedulerProcess: "workers resume machine note plans ping",
    JobRegistry: "ended stalled printed scaled broken stopped",
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
        "free_dropped",
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
@pytest.mark.parametrize("actor", LISTED, ids=lambda actor: actor.__name__)
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


def test_an_override_of_a_remote_method_is_remote():
    class Base:
        @remote_method
        def ask(self):
            return 1

    class Derived(Base):
        def ask(self):
            return 2

    assert remote_methods(Derived()) == ["ask"]


def test_a_client_reaches_its_own_calls_and_those_that_concern_no_client():
    class Head(ClusterHead):
        n_workers = limit = capacity = 0
        info = look = ready = _machine = None

        def __init__(self):
            self._actors, self._knocking = {}, {}
            self.clients = SimpleNamespace(
                come=lambda: SimpleNamespace(session=session, store=store), store=object.__new__(StoreActor)
            )
            self.scheduler = SimpleNamespace(session=object.__new__(SessionActor))

    session, store = object.__new__(ClientSession), object.__new__(ClientStore)
    mailbox = Head()._mailbox(None)
    assert mailbox.methods("session") == sorted({*SESSION.split(), *LISTED[ClientSession].split()})
    assert mailbox.methods("host") == sorted(f"{LISTED[ClientHost]} {LISTED[Host]}".split())
    assert mailbox.methods("store") == sorted(["reserve", "seal", "abandon", "pin", "unpin"])
    assert mailbox.find("store", "abandon").__self__ is store
    assert mailbox.find("session", "drop").__self__ is session, "a client ends its own holds alone"
