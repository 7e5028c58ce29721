"""Chunks between hosts, process to process, over TLS.

- wire.py: frames of the bulk connection
- frame_reader.py: frames out of a stream (FrameReader)
"""
