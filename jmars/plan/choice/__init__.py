"""Chooses the best of several plans by simulation, explains the choice, and revises plans during a run.

candidates  assignments and orders to try, cheap plans first
chosen      the candidates and the best of them, as data
choose      the best plan for several workers
one_host    the best order for a single host
brief       whether the messages about operands take longer than the operands
devices     cores or GPUs for each operand
explain     a plan as data that a notebook draws
drift       measured speed of workers against the plan
replan      a plan for the rest of a run
"""
