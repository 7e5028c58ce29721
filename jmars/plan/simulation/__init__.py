"""Runs of a plan in virtual time.

sim_result     makespan, bytes moved and spilled, peak memory
sim_memory     memory and disk of a simulated worker
sim_network    transfers between simulated workers
event_loop     a simulated run, event by event
simulate       the cost of a plan
follow_inputs  placement while the graph runs, as Mars does
waiting        bytes times seconds that chunks wait for readers on other workers
lower_bound    seconds that no plan beats
windows        the memory of a run on a host whose dispatcher sends batches ahead
predict        the cost of a run on this host
"""
