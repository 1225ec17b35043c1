/* tasks.h: who does which of a call's tasks.
 *
 * Each worker has a run of tasks of its own, the same one in every call of as many tasks, so that it finds in the caches of its core
 * what the last call, or the last stage of this one, left there. Who is done with its own takes from the runs after it.
 *
 *   tasks_begin(t, count, workers)   `count` tasks for `workers`
 *   tasks_next(t, worker)            the worker's next task, -1 when none is left
 */
#ifndef CPUOPS_TASKS_H
#define CPUOPS_TASKS_H
#include <stddef.h>

enum { TASK_RUNS = 64, CORE_LINE = 64 }; /* most runs: more workers share them; bytes that cores do not share */

typedef struct {
    ptrdiff_t next, end;
} __attribute__((aligned(CORE_LINE))) TaskRun;
typedef struct {
    TaskRun run[TASK_RUNS];
    ptrdiff_t runs;
} Tasks;

static inline void tasks_begin(Tasks *t, ptrdiff_t count, ptrdiff_t workers)
{
    t->runs = workers < TASK_RUNS ? workers : TASK_RUNS;
    for (ptrdiff_t r = 0; r < t->runs; r++) {
        t->run[r].next = count / t->runs * r + count % t->runs * r / t->runs;
        t->run[r].end = count / t->runs * (r + 1) + count % t->runs * (r + 1) / t->runs;
    }
}

static inline ptrdiff_t tasks_next(Tasks *t, ptrdiff_t worker)
{
    for (ptrdiff_t i = 0; i < t->runs; i++) {
        TaskRun *run = &t->run[(worker + i) % t->runs];
        if (__atomic_load_n(&run->next, __ATOMIC_RELAXED) < run->end) {
            ptrdiff_t task = __atomic_fetch_add(&run->next, 1, __ATOMIC_RELAXED);
            if (task < run->end)
                return task;
        }
    }
    return -1;
}
#endif
