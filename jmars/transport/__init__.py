"""Chunks between hosts, process to process, over TLS.

- wire.py: frames of the bulk connection
- frame_reader.py: frames out of a stream (FrameReader)
- link_rate.py: bandwidth and latency of a link (LinkRate)
- pulls.py: chooses holders, and ranges to ask for (Pulls)
- part_queue.py: chooses the next part to send (PartQueue)
- tls_sockets.py: connections with both identities checked (HostIdentity)
- inbox.py: messages to a thread that waits for sockets (Inbox)
"""
