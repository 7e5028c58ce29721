"""The door: a process of its own that serves one cluster over HTTP on 127.0.0.1, for programs without jmars.

What it decides is plain; handlers only ask it. It connects to a cluster as any client does and holds no run.

names.py             what a graph sent as JSON may call
document.py          the JSON form of a tensor graph, checked and built
values.py            parameters of operands as JSON, and what of them does not travel
shapes.py            whether a value has the type that a field promises
operands.py          the other JSON form: operands as they are, for programs that have jmars
engine.py            the engine of a process that builds and computes nothing
guard.py             who may ask: token, Host, Origin
problems.py          what went wrong, as status and JSON
slices.py            which chunks, and which bytes of them, a slice reads
npy.py               .npy headers, and .npy files that arrive in pieces
metrics.py           numbers for Prometheus
session_file.py      the file: rows of sessions, arrays and graphs, and documents
sessions.py          sessions, arrays and graphs, as plain data
link.py              the connection to the cluster
recomputing.py       results that were lost, computed again from their documents
fetching.py          the elements of results, piece by piece
door.py              Door: what handlers ask for, done on the cluster
json_pieces.py       JSON in pieces
handlers.py          what handlers share, and those that concern no session
session_handlers.py  sessions and uploads
graph_handlers.py    graphs and their results
event_handlers.py    events, as lines and as a websocket
schemas.py           JSON Schemas
openapi.py           the OpenAPI document
routes.py            all paths
server.py            the process: `python -m jmars web`
"""
