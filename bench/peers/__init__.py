"""Other libraries, each doing the workloads in its own best way.

A peer module maps method names of cpuops to its own functions and says in one place how arrays go in and come out. A
gradient without a function of its own in the library is asked of its automatic differentiation.
"""
