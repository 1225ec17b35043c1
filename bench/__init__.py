"""Benchmarks: what every operation costs, beside its peers and beside the machine's limit.

    python -m bench run | peers | compare | ab | plot | scale | memory | instructions      (docs/benchmarks.md)

One contestant is one process: cpuops, a peer library, or another revision of cpuops. The parent deals out turns, so that
contestants alternate in time and share no thread pool, no allocator and no environment.

    __main__   command line; a BenchError is one line and exit 2
       |
    run peers ab scale memory instructions compare plot          the commands
       |                                                          |
    schedule    groups, launches, rounds, turns                   resultfile   the JSON schema
       |                                                          statistics   median, MAD, Mann-Whitney
    contestant  a worker process seen from the parent             report       tables of text
       |  (JSON lines over a pipe)
    worker      prepares a workload, checks it, times turns
       |
    engines     cpuops_engine and peers/*: how each library does a workload
       |
    workloads/* what is measured; operations (the table of tests/) says what is right and what it costs
    reference   the oracle's results    timing  batches, turns    control  noise    limits  what the machine can do
"""
