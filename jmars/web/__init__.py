"""The web gateway: a process that serves one cluster over HTTP on 127.0.0.1, for programs without jmars.

The gateway connects to a cluster as a client does and runs no operands. Handlers translate HTTP; other files decide.

call_document.py        the JSON form of a tensor graph as named calls: checks and builds it
operand_document.py     the JSON form of a tensor graph as operands, for programs that have jmars
problems.py             errors as HTTP status and JSON
npy_stream.py                  .npy headers, and .npy files that arrive in pieces
sessions.py             records of sessions, arrays and graphs
results.py              reads the elements of results piece by piece
gateway.py              Gateway: what handlers call, done on the cluster
handlers.py             base classes of handlers; handlers without a session
session_handlers.py     sessions and uploads
server.py               the process: `python -m jmars web`, and the table of paths
"""
