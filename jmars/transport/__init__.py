"""Chunks between hosts, process to process, over TLS or UCX.

- wire.py: frames of the bulk connection
- frame_reader.py: frames out of a stream (FrameReader)
- link_rate.py: bandwidth and latency of a link (LinkRate)
- pulls.py: chooses holders, and ranges to ask for (Pulls)
- part_queue.py: chooses the next part to send (PartQueue)
- tls_sockets.py: connections with both identities checked (HostIdentity)
- inbox.py: messages to a thread that waits for sockets (Inbox)
- ucx_choice.py: chooses between UCX and TLS (TransportChoice)
- ucx.py: messages by UCX (Ucx)
- ucx_greeting.py: agrees on UCX over a TLS connection (agree)
- ucx_reader.py: parts that a lane receives by UCX (UcxReader)
- ucx_source.py: parts that a lane sends by UCX (UcxSource)
- lanes.py: an end of a connection, and the thread there (BulkLane)
- pull_lanes.py: the end that reads chunks (PullLane)
- serve_lanes.py: the end that has chunks (ServeLane)
- pulling.py: all pulls of a host (Puller)
- serving.py: all requests of other hosts (ChunkServer)
"""
