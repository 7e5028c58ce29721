"""Several hosts on one machine: network namespaces joined by a cable, a real sshd, faults of the network.

machines.py    machines: process tables and networks of their own
cables.py      cables between two machines, and what may happen to them
relay.py       a slow cable: a program that carries packets between two machines
ssh_server.py  sshd on a machine, and the keys for it
stand_in.py    a program that plays `python -m jmars host --join -`
"""
