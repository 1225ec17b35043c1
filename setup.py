"""Build: every kernel is cythonized once and compiled once an ISA level.

CPUOPS_ISA_LEVELS   levels to compile: "all" (default; v2, v3, v4 on x86-64, "base" elsewhere), "native" (the best level
                    of the building machine only, for quick work) or a list such as "v2,v3"
CPUOPS_ONLY         names of kernels to compile, for quick work ("matmul,conv"); everything else is left as it is
"""

import copy
import os
import platform
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

KERNELS = Path("cpuops/_kernels")
X86 = platform.machine().lower() in ("x86_64", "amd64")
LEVELS = ("v2", "v3", "v4") if X86 else ("base",)
# No -ffast-math and nothing like it: NaN, infinities and subnormals are part of the contract.
# -ffp-contract=off: only simd.h's vfma fuses, so that an element has the same bits wherever it stands (docs/adr/0002).
CFLAGS = ["-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fno-strict-aliasing", "-g0"]
# what Cython's own code and the loops of prange set off, and nobody can mend here
CFLAGS += ["-Wno-unused-function", "-Wno-unused-variable", "-Wno-maybe-uninitialized"]
MACROS = [("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")]
DIRECTIVES = {
    "language_level": 3, "boundscheck": False, "wraparound": False, "cdivision": True, "initializedcheck": False,
    "embedsignature": False, "binding": False,
}  # fmt: skip


def native_level():
    """The best level of this machine, by what the compiler makes of -march=native."""
    if not X86:
        return "base"
    cc = os.environ.get("CC", "cc").split()
    text = subprocess.run([*cc, "-march=native", "-dM", "-E", "-"], input="", capture_output=True, text=True, check=True).stdout
    if all(f"__AVX512{f}__" in text for f in ("F", "BW", "CD", "DQ", "VL")):
        return "v4"
    return "v3" if "__AVX2__" in text and "__FMA__" in text else "v2"


def chosen_levels():
    wanted = os.environ.get("CPUOPS_ISA_LEVELS", "all")
    if wanted == "all":
        return LEVELS
    levels = (native_level(),) if wanted == "native" else tuple(w.strip() for w in wanted.split(","))
    unknown = [lv for lv in levels if lv not in LEVELS]
    if unknown:
        sys.exit(f"CPUOPS_ISA_LEVELS={wanted}: no level {', '.join(unknown)} here; there are all, native, {', '.join(LEVELS)}")
    return levels


def march(level):
    return [] if level == "base" else [f"-march=x86-64-{level}"]


def headers_of(path):
    """The headers of this package that a source is made of, however indirectly."""
    found, left = set(), [path]
    while left:
        text = left.pop().read_text(encoding="utf-8")
        names = re.findall(r'(?m)^\s*(?:#\s*(?:include|define REAL_BODY)|cdef extern from) "([\w.]+)"', text)
        names += [f"{n}.pxd" for n in re.findall(r"from cpuops\._kernels\.(\w+) cimport", text)]
        new = {KERNELS / n for n in names} - found
        found |= new
        left += [p for p in new if p.exists()]
    return sorted(str(p) for p in found if p.exists())


def extensions():
    """The extensions to cythonize (one a source) and, of the kernels among them, the levels to compile."""
    only = {n for n in os.environ.get("CPUOPS_ONLY", "").split(",") if n}
    once = [Path("cpuops") / f"{n}.pyx" for n in ("_memory", "_omp", "_operand", "_remembered", "_small")] + [KERNELS / "cpuid.pyx"]
    each_level = sorted(set(KERNELS.glob("*.pyx")) - set(once))

    def extension(path):
        name = ".".join(path.with_suffix("").parts)
        return Extension(name, [str(path)], include_dirs=[np.get_include(), str(KERNELS)], define_macros=MACROS, depends=headers_of(path))

    def wanted(path):
        return path.exists() and (not only or path.stem in only)

    return [extension(p) for p in once if wanted(p)], [extension(p) for p in each_level if wanted(p)]


def at_level(ext, level):
    """The same C source as a module of its own: cpuops._kernels.<level>.<kernel>."""
    package, _, kernel = ext.name.rpartition(".")
    clone = copy.copy(ext)
    clone.name = f"{package}.{level}.{kernel}"
    clone.extra_compile_args = march(level)
    return clone


class BuildExt(build_ext):
    """Compiles in parallel, each extension in a build directory of its own, with OpenMP where the compiler has it."""

    def finalize_options(self):
        super().finalize_options()
        self.parallel = self.parallel or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()

    def openmp_flags(self):
        """Compile and link flags for OpenMP, found by trying; None where there is no OpenMP."""
        tries = [(["-fopenmp"], ["-fopenmp"])]
        if sys.platform == "darwin":
            tries = [(["-Xpreprocessor", "-fopenmp"], ["-lomp"]), *tries]
        for cflags, ldflags in tries:
            with tempfile.TemporaryDirectory() as d:
                source = Path(d) / "try.c"
                source.write_text("#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n")
                try:
                    objects = self.compiler.compile([str(source)], output_dir=d, extra_postargs=cflags)
                    self.compiler.link_executable(objects, "try", output_dir=d, extra_postargs=ldflags)
                    return cflags, ldflags
                except Exception as error:  # distutils raises its own kinds for each failing tool
                    print(f"OpenMP with {' '.join(cflags)}: {error}")
        return None

    def build_extensions(self):
        openmp = self.openmp_flags() if os.environ.get("CPUOPS_OPENMP", "1") != "0" else None
        if openmp is None:
            print("cpuops: no OpenMP: the threaded backend will run on one thread (cpuops.show_config() says so)")
        for ext in self.extensions:
            ext.extra_compile_args = CFLAGS + ext.extra_compile_args
            # the allocator, the checks and the CPU query stay loadable where libgomp is not
            if openmp and ext.name.rpartition(".")[2] not in ("_memory", "_operand", "_remembered", "_small", "cpuid"):
                ext.extra_compile_args = ext.extra_compile_args + openmp[0]
                ext.extra_link_args = ext.extra_link_args + openmp[1]
        with ThreadPoolExecutor(self.parallel) as pool:
            list(pool.map(self.build_in_own_directory, self.extensions))

    def build_in_own_directory(self, ext):
        clone = copy.copy(self)
        clone.build_temp = str(Path(self.build_temp) / ext.name)
        build_ext.build_extension(clone, ext)


def main():
    once, each_level = extensions()
    cythonized = cythonize(
        once + each_level, build_dir="build/cython", compiler_directives=DIRECTIVES, include_path=["."], nthreads=0,
        show_all_warnings=False,
    )  # fmt: skip
    by_name = {e.name: e for e in cythonized}
    modules = [by_name[e.name] for e in once]
    for level in chosen_levels():
        (KERNELS / level).mkdir(exist_ok=True)  # build_ext --inplace copies into it
        modules += [at_level(by_name[e.name], level) for e in each_level]
    setup(ext_modules=modules, cmdclass={"build_ext": BuildExt})


if __name__ == "__main__":
    main()
