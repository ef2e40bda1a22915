"""Submissions in CUDA C++ behind the C interface of ``kernelcup.h``."""
