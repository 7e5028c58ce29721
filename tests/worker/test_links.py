"""What a child says is acted on, or the process hears that it could not be."""

import asyncio

import pytest

from jmars.actors.frames import pack
from jmars.errors import StorageError
from jmars.worker.links import ChildLink


@pytest.mark.parametrize("error", [AssertionError("books"), StorageError("an OSError, which asyncio does not report")])
def test_an_error_of_our_own_is_not_taken_for_the_childs(error):
    async def hear() -> list:
        def raise_it(link, message):
            raise error

        heard = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: heard.append(context["exception"]))
        ChildLink("worker-0", raise_it, lambda link, why: None).data_received(pack("report"))
        return heard

    assert asyncio.run(hear()) == [error]
