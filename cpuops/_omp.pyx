"""What is asked of the OpenMP runtime. Nothing here changes a setting of it: a library's guest does not.

Compiled without OpenMP, this module says so and answers for one thread.
"""


cdef extern from *:
    r"""
    #if defined(_OPENMP)
    #  include <omp.h>
    #  define COMPILED 1
    #  define SPECIFICATION _OPENMP      /* the month of it */
    #  if defined(__ELF__)
    #    define OPTIONAL __attribute__((weak))
    #  elif defined(__APPLE__)
    #    define OPTIONAL __attribute__((weak_import))
    #  endif
    #  if defined(OPTIONAL)
    /* What the compiler's omp.h knows and what the runtime has are two things: a function that may be missing is a weak
       symbol, NULL where the runtime lacks it, under a name that no header declares. */
    #    define TEXT_OF(word) #word
    #    define SYMBOL_IN(prefix, name) TEXT_OF(prefix) name
    #    define SYMBOL(name) __asm__(SYMBOL_IN(__USER_LABEL_PREFIX__, name))
    extern int pause_resource_all(int kind) SYMBOL("omp_pause_resource_all") OPTIONAL;      /* OpenMP 5.0; libgomp since gcc 9 */
    extern int kmpc_global_thread_num(void *) SYMBOL("__kmpc_global_thread_num") OPTIONAL;  /* LLVM's and Intel's runtimes only */
    static int has_pause(void) { return pause_resource_all != 0; }
    static int is_llvm(void) { return kmpc_global_thread_num != 0; }
    #  else
    static int has_pause(void) { return 0; }
    static int is_llvm(void) { return 0; }
    #  endif
    #else
    #  define COMPILED 0
    #  define SPECIFICATION 0
    static int omp_get_max_threads(void) { return 1; }
    static int has_pause(void) { return 0; }
    static int is_llvm(void) { return 0; }
    #endif

    #define PAUSE_HARD 2                                    /* omp_pause_hard: give up everything, threads included */

    #if COMPILED && defined(__ELF__)
    #  include <dlfcn.h>
    #  include <link.h>
    #  include <string.h>

    /* A process may have several libgomps (every wheel of PyTorch brings one), and kernels that were loaded before and
       after it may be bound to different ones: all of them are paused. */
    #define MOST_RUNTIMES 8
    #define LONGEST_PATH 512
    typedef struct { int n; char path[MOST_RUNTIMES][LONGEST_PATH]; } Runtimes;

    static int note_libgomp(struct dl_phdr_info *info, size_t size, void *data) {
        Runtimes *r = (Runtimes *)data;
        const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
        const char *file = slash ? slash + 1 : info->dlpi_name;
        (void)size;
        if (file && !strncmp(file, "libgomp", 7) && r->n < MOST_RUNTIMES && strlen(info->dlpi_name) < LONGEST_PATH)
            strcpy(r->path[r->n++], info->dlpi_name);
        return 0;
    }

    static int pause_libgomps(void) {
        Runtimes r;
        int i, paused = 0;
        r.n = 0;
        dl_iterate_phdr(note_libgomp, &r);
        if (r.n == 0 && has_pause() && !is_llvm()) return pause_resource_all(PAUSE_HARD), 1;    /* linked statically */
        for (i = 0; i < r.n; i++) {
            void *lib = dlopen(r.path[i], RTLD_LAZY | RTLD_NOLOAD);
            if (lib == NULL) continue;
            int (*pause)(int) = (int (*)(int))dlsym(lib, "omp_pause_resource_all");
            if (pause != NULL && dlsym(lib, "__kmpc_global_thread_num") == NULL) {     /* LLVM's may go by this name, too */
                pause(PAUSE_HARD);
                paused++;
            }
            dlclose(lib);
        }
        return paused;
    }
    #elif defined(OPTIONAL)
    static int pause_libgomps(void) { return has_pause() && !is_llvm() ? (pause_resource_all(PAUSE_HARD), 1) : 0; }
    #else
    static int pause_libgomps(void) { return 0; }
    #endif

    /* the file that the runtime's functions come from, or NULL */
    #if COMPILED && (defined(__ELF__) || defined(__APPLE__))
    #  include <dlfcn.h>
    static const char *runtime_file(void) {
        Dl_info info;
        return dladdr((void *)omp_get_max_threads, &info) ? info.dli_fname : NULL;
    }
    #else
    static const char *runtime_file(void) { return NULL; }
    #endif

    #if defined(__clang__)
    #  define COMPILER "Clang "
    #elif defined(__GNUC__)
    #  define COMPILER "GCC "
    #else
    #  define COMPILER ""
    #endif
    #if defined(__VERSION__)
    #  define COMPILER_VERSION __VERSION__
    #elif defined(_MSC_VER)
    #  define COMPILER_VERSION "MSVC"
    #else
    #  define COMPILER_VERSION "unknown"
    #endif
    """
    const int COMPILED
    const int SPECIFICATION
    const char *COMPILER
    const char *COMPILER_VERSION
    int omp_get_max_threads() noexcept
    const char *runtime_file() noexcept
    bint has_pause() noexcept
    bint is_llvm() noexcept
    int pause_libgomps() noexcept


cdef dict SPECIFICATIONS = {
    200805: "3.0", 201107: "3.1", 201307: "4.0", 201511: "4.5", 201811: "5.0", 202011: "5.1", 202111: "5.2", 202411: "6.0",
}


def compiled():
    """Whether this build has OpenMP."""
    return bool(COMPILED)


def runtime():
    """The specification that was compiled for and the runtime, such as "OpenMP 4.5 (libgomp)", or None."""
    if not COMPILED:
        return None
    cdef const char *path = runtime_file()
    name = "unknown runtime" if path == NULL else path.decode("utf-8", "replace").rpartition("/")[2].partition(".")[0]
    return f"OpenMP {SPECIFICATIONS.get(SPECIFICATION, SPECIFICATION)} ({name})"


def compiler():
    """The compiler that built this module, with its version."""
    name, version = COMPILER.decode(), COMPILER_VERSION.decode()
    return version if version.startswith(name.strip()) else name + version


def max_threads():
    """How many threads a region of the calling Python thread would get: its own limit where one is in force."""
    return omp_get_max_threads()


def forks_safely():
    """Whether a fork leaves the child a runtime that works: `pause` does that, or the runtime itself."""
    return not COMPILED or is_llvm() or has_pause()


def pause():
    """End the idle worker threads of the calling Python thread; its next region starts them again.

    libgomp's workers belong to the thread that opens regions, and do not survive a fork although the child remembers
    them: its first region would wait for them for ever. So they are ended before the fork. The workers of other
    Python threads are not touched, busy or not, and the child has neither them nor their masters. The runtimes of
    LLVM and Intel handle forks themselves.

    Returns
    -------
    int
        How many runtimes were paused.
    """
    return pause_libgomps()
