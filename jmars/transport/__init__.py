"""Chunks between hosts, process to process, over TLS or UCX.

- wire.py: frames of the bulk connection
- pulls.py: chooses holders, and ranges to ask for (Pulls)
- tls_sockets.py: connections with both identities checked (HostIdentity)
- ucx.py: messages by UCX (Ucx)
- lanes.py: an end of a connection, and the thread there (BulkLane)
- pulling.py: all pulls of a host (Puller)
- serving.py: all requests of other hosts (ChunkServer)
"""
