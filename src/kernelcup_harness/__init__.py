"""The measuring device: builds, checks and times one submission on the machine it runs on.

It needs the standard library and, in the judge and the contestant only, PyTorch. It imports
nothing of ``kernelcup``. ``python -m kernelcup_harness JOB.json`` is its whole interface.
"""
