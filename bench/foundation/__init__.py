"""The first speed table: cpuops beside NumPy's OpenBLAS and PyTorch in one process, one run.

    python -m bench.foundation

workload.py is the record of one piece of work, measure.py times it, peers.py knows the libraries it is compared with,
scratch.py measures memory, __main__.py is the command; products, expressions and steps list the work.
"""
