"""A user's file with mistakes: test_typing.py finds each of them by `mypy --strict`."""

import jmars
import jmars.tensor as mt

mt.sqrtt(1)
mt.ones(3, chunksize=2)
jmars.Cluster(workers=2)
jmars.execut(mt.ones(3))
text: str = mt.sqrt(mt.ones(3))
mt.ones(3).summ()
mt.ones(3).T.reshap(3)
mt.ones(3).sum(axes=0)
number: int = mt.ones(3) + 1
