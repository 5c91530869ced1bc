// Counts the syncs of a process, whoever makes them: loaded before the C library (LD_PRELOAD), it is asked first, counts,
// and lets the C library do what was asked. `syncs_made` tells how many there were.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

static atomic_ulong made;

unsigned long syncs_made(void) { return made; }

static int of_file(const char *name, int file) {
    made++;
    return ((int (*)(int))dlsym(RTLD_NEXT, name))(file);
}

int fsync(int file) { return of_file("fsync", file); }

int fdatasync(int file) { return of_file("fdatasync", file); }

int msync(void *start, size_t length, int flags) {
    if (flags & MS_SYNC) made++;
    return ((int (*)(void *, size_t, int))dlsym(RTLD_NEXT, "msync"))(start, length, flags);
}
