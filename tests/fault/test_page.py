"""Row 30: the page floods the kernel and closes the widget while a cell runs. The value comes, in bounded memory."""

import pytest

from jmars.notebook.widget import STATIC
from tests.notebook.kernels import running_kernel

FLOOD = 300  # messages; of more than a thousand answers that nobody reads ZeroMQ would drop some
GROWTH = 40 * 2**20  # bytes

CELL = """%%jmars -w 2 --memory 256MiB
import time
def slow(block):
    time.sleep(0.05)
    return block + 1
x = map_blocks(slow, np.zeros(60, chunk_size=1), dtype=float).sum()
x
"""
RSS = "int(next(line for line in open('/proc/self/status') if line.startswith('VmRSS')).split()[1]) * 1024"


@pytest.mark.long
def test_row_30_a_page_floods_the_kernel_and_closes_its_widget(seed, chance, tmp_path):
    if not (STATIC / "widget.js").exists():
        pytest.skip("the front end is not built: run `jlpm && jlpm build:prod` in labextension/")
    with running_kernel(tmp_path, "newest", {"JMARS_DISPLAY": "widget"}) as kernel:
        kernel.run("%load_ext jmars\nimport numpy as np\nfrom jmars.tensor import map_blocks")
        kernel.run("%%jmars -w 2 --memory 256MiB\nnp.ones(3).sum()")
        before = int(kernel.run(RSS))
        kernel.iopub.clear()
        cell = kernel.send(CELL)
        opened = kernel.wait_for(lambda m: m["msg_type"] == "comm_open" and "job_id" in m["content"]["data"]["state"])
        comm = opened["content"]["comm_id"]
        closed = chance.randrange(FLOOD)
        for number in range(FLOOD):  # what comes after the end is for nobody
            content = {"type": ["select", "page", "nonsense", None][number % 4], "id": number, "job": "x" * 100}
            kernel.shell("comm_msg", {"comm_id": comm, "data": {"method": "custom", "content": content}})
            if number == closed:
                kernel.shell("comm_close", {"comm_id": comm, "data": {}})
        assert kernel.reply(cell, 60)["status"] == "ok"
        assert kernel.run("%%jmars\nfloat(x + 1)", 60).splitlines()[-1] == "61.0"
        assert int(kernel.run(RSS, 60)) - before <= GROWTH
        kernel.run("%jmars stop")
