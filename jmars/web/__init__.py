"""The web gateway: a process that serves one cluster over HTTP on 127.0.0.1, for programs without jmars.

The gateway connects to a cluster as a client does and runs no operands. Handlers translate HTTP; other files decide.

allowed_functions.py    functions that a graph sent as JSON may call
call_document.py        the JSON form of a tensor graph as named calls: checks and builds it
operand_values.py       parameters of operands to JSON and back
field_types.py          checks a value against the type of a dataclass field
operand_document.py     the JSON form of a tensor graph as operands, for programs that have jmars
building_engine.py      the engine of the gateway's process: builds graphs, computes no value
guard.py                checks token, Host and Origin of requests
problems.py             errors as HTTP status and JSON
slices.py               chunks and byte ranges that a slice reads
npy_stream.py                  .npy headers, and .npy files that arrive in pieces
metrics.py              metrics for Prometheus
session_file.py         sessions, arrays and graphs in SQLite
sessions.py             records of sessions, arrays and graphs
cluster_connection.py   the connection to the cluster
result_recovery.py      computes lost results again from their documents
result_reader.py        reads the elements of results piece by piece
gateway.py              Gateway: what handlers call, done on the cluster
json_stream.py          JSON text in pieces
handlers.py             base classes of handlers; handlers without a session
session_handlers.py     sessions and uploads
graph_handlers.py       graphs and their results
event_handlers.py       events as lines and over a websocket
schemas.py              JSON Schemas
openapi.py              the OpenAPI document
routes.py               the table of paths
server.py               the process: `python -m jmars web`
"""
