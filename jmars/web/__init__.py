"""The gateway: a process of its own that serves one cluster over HTTP on 127.0.0.1, for programs without jmars.

What it decides is plain; handlers only ask it. It connects to a cluster as any client does and holds no run.

allowed_functions.py             what a graph sent as JSON may call
call_document.py          the JSON form of a tensor graph, checked and built
operand_values.py            parameters of operands as JSON, and what of them does not travel
field_types.py            whether a value has the type that a field promises
operand_document.py          the other JSON form: operands as they are, for programs that have jmars
building_engine.py            the engine of a process that builds and computes nothing
guard.py             who may ask: token, Host, Origin
problems.py          what went wrong, as status and JSON
slices.py            which chunks, and which bytes of them, a slice reads
npy.py               .npy headers, and .npy files that arrive in pieces
metrics.py           numbers for Prometheus
session_file.py      the file: rows of sessions, arrays and graphs, and documents
sessions.py          sessions, arrays and graphs, as plain data
cluster_connection.py              the connection to the cluster
result_recovery.py       results that were lost, computed again from their documents
result_reader.py          the elements of results, piece by piece
gateway.py              Gateway: what handlers ask for, done on the cluster
json_stream.py       JSON in pieces
handlers.py          what handlers share, and those that concern no session
session_handlers.py  sessions and uploads
graph_handlers.py    graphs and their results
event_handlers.py    events, as lines and as a websocket
schemas.py           JSON Schemas
openapi.py           the OpenAPI document
routes.py            all paths
server.py            the process: `python -m jmars web`
"""
