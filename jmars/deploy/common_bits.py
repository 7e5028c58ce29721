"""CommonBits: has all hosts of a cluster compute the same bits, though their CPUs differ.

A host with CPU features that another host lacks starts again without these features. Source: `host_facts.same_bits`.
"""

from __future__ import annotations

import asyncio
import logging

from jmars.deploy.host_facts import HostFacts, same_bits
from jmars.deploy.roster import Roster
from jmars.errors import ClusterStartError

log = logging.getLogger("jmars.host")

AGAIN_SECONDS = 60.0  # for hosts to start again


class CommonBits:
    """Tells hosts the environment with which to start again.

    Parameters
    ----------
    is_wanted
        Whether hosts must compute the same bits.
    start_again
        Whether hosts can start again; False for child processes of an engine's workers.
    """

    def __init__(self, roster: Roster, is_wanted: bool, start_again: bool = True) -> None:
        self._roster, self._is_wanted, self._can_start_again = roster, is_wanted, start_again
        self._told: dict[str, dict[str, str]] = {}  # variables by host
        self._are_fixed = False  # the features of the present hosts

    def environment(self, name: str, facts: HostFacts) -> dict[str, str]:
        """Variables with which a host that joins must start again; empty for a host that may join.

        Raises
        ------
        ClusterStartError
            If no environment does it, or the host lacks features that present hosts use.
        """
        others = self._facts()
        if not self._is_wanted or not others:
            return {}
        found = same_bits({**others, name: facts}).environment
        if self._are_fixed and any(found[other] for other in others):
            raise ClusterStartError(
                f"{name} has an older CPU than the hosts that are here, and the last bits of a value would depend on "
                "the host that computes it; start a cluster with this host, or with same_bits=False"
            )
        return self._tell(name, found[name])

    async def agree(self) -> None:
        """Have hosts with further features start again, and return when all have joined again.

        Raises
        ------
        ClusterStartError
            If no environment does it, or a host does not come back.
        """
        while self._is_wanted:
            found = same_bits(self._facts())
            numbers = {row.name: row.number for row in self._roster.hosts.here}
            again = {numbers[name]: self._tell(name, told) for name, told in found.environment.items() if told}
            if not again:
                for note in [*found.notes, *(f"{name} runs with {_shell(told)}" for name, told in self._told.items())]:
                    log.warning("%s", note)
                break
            await self._start_again(again)
        self._are_fixed = True

    # -- own
    async def _start_again(self, environments: dict[int, dict[str, str]]) -> None:
        before = {number: self._roster.channels[number] for number in environments}
        for number, environment in environments.items():
            before[number].tell("member", "start_again", environment)
        try:
            async with asyncio.timeout(AGAIN_SECONDS):
                channels, links = self._roster.channels, self._roster.links
                while any(channels[number] is old or number not in links for number, old in before.items()):
                    self._roster.come.clear()
                    await self._roster.come.wait()
        except TimeoutError:
            names = ", ".join(self._roster.names[number] for number in environments)
            raise ClusterStartError(
                f"{names} did not start again within {AGAIN_SECONDS:g} s, without CPU features that other hosts lack; "
                "see the logs there, or start with same_bits=False"
            ) from None

    def _tell(self, name: str, environment: dict[str, str]) -> dict[str, str]:
        if environment and not self._can_start_again:
            raise ClusterStartError(
                f"{name} has another CPU than other hosts, and the last bits of a value would depend on the host that "
                f"computes it; set {_shell(environment)} in the environment there, or start with same_bits=False"
            )
        if environment and self._told.get(name) == environment:
            raise ClusterStartError(
                f"{name} has another CPU than other hosts even with {_shell(environment)}, and the last bits of a "
                "value would depend on the host that computes it; start with same_bits=False"
            )
        if environment:
            self._told[name] = environment
        return environment

    def _facts(self) -> dict[str, HostFacts]:
        facts = self._roster.facts
        return {row.name: HostFacts.of_wire(facts[row.number]["host"]) for row in self._roster.hosts.here}


def _shell(variables: dict[str, str]) -> str:
    """Variables of an environment as a shell takes them."""
    return " ".join(f"{variable}='{value}'" for variable, value in variables.items())
