// clock_gettime that is off by what a shared file says: two doubles, seconds for the wall clock and for the monotonic
// one. Preloaded by tests/fault/test_time.py.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile double *off;
static int (*real)(clockid_t, struct timespec *);

__attribute__((constructor)) static void start(void) {
    real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("JMARS_TEST_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *at = mmap(0, 16, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (at != MAP_FAILED) off = at;
}

int clock_gettime(clockid_t which, struct timespec *out) {
    if (!real) start();
    int failed = real(which, out);
    if (!failed && off) {
        if (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE) out->tv_sec += (time_t)off[0];
        if (which == CLOCK_MONOTONIC || which == CLOCK_BOOTTIME) out->tv_sec += (time_t)off[1];
    }
    return failed;
}

int gettimeofday(struct timeval *out, void *zone) {
    struct timespec now;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
