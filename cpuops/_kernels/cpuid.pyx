"""What this CPU supports, compiled for the baseline: the one module that may be loaded anywhere."""

cdef extern from *:
    """
    #if defined(__x86_64__)
    #include <cpuid.h>
    /* a bit of register ecx that a leaf of cpuid returns; for what __builtin_cpu_supports does not know by name */
    static int cpuops_ecx(unsigned leaf, int bit)
    {
        unsigned a, b, c = 0, d;
        return __get_cpuid(leaf, &a, &b, &c, &d) && c >> bit & 1;
    }
    #endif
    /* 2, 3, 4 for x86-64-v2, -v3, -v4 (the CPU has it and the system saves its registers), 0 for less or another CPU */
    static int cpuops_x86_level(void)
    {
    #if defined(__x86_64__)
        __builtin_cpu_init();
        if (!(__builtin_cpu_supports("sse3") && __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.1")
              && __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt")
              && cpuops_ecx(1, 13) /* cmpxchg16b */ && cpuops_ecx(0x80000001, 0) /* lahf */))
            return 0;
        if (!(__builtin_cpu_supports("avx") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi")
              && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma")
              && cpuops_ecx(1, 22) /* movbe */ && cpuops_ecx(1, 29) /* f16c */ && cpuops_ecx(0x80000001, 5) /* lzcnt */))
            return 2;
        if (!(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd")
              && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")))
            return 3;
        return 4;
    #else
        return 0;
    #endif
    }
    #if defined(__x86_64__)
    #define CPUOPS_X86 1
    #else
    #define CPUOPS_X86 0
    #endif
    """
    int cpuops_x86_level() noexcept
    bint CPUOPS_X86


def supported():
    """Names of the ISA levels that this CPU can run, the widest last."""
    if not CPUOPS_X86:
        return ["base"]
    return [f"v{level}" for level in range(2, cpuops_x86_level() + 1)]
