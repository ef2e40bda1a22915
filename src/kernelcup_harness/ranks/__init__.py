"""Calls on several GPUs of one host: one process for each GPU rank, of the judge and of the contestant.

The judge's ranks and the contestant's are two groups of processes, each on a loopback of its own: what a submission
sends reaches no judge, and no process of a submission sees another rank's input or the seed.
"""
