"""Every function with arrays of every dtype: a value or an error, and no process ends.

In reading order:

- calls.py: what is drawn: a function, arrays of any dtype, a dtype asked for
- child.py: a process with a cluster that makes such calls, so that its end is noticed
- test_alive.py: the property, and the programs that once ended a process
"""
