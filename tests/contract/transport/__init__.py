"""The contract of chunks between hosts: real carriers, each a process, over TLS on this machine."""
