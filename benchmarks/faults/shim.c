/* System calls that fail on purpose: loaded before the C library, it counts the opens, reads, writes, flushes and renames of files
   below two folders, and lets one of them fail with an error, or ends the process there. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static char folders[2][PATH_MAX];
static long calls, chosen = -1;
static int failure; /* an error number, or 0 to end the process */

void faults_arm(const char *first, const char *second, long call, int number) {
    strncpy(folders[0], first, PATH_MAX - 1);
    strncpy(folders[1], second, PATH_MAX - 1);
    calls = 0;
    chosen = call;
    failure = number;
}

long faults_calls(void) { return calls; }

static int below(const char *path) {
    for (int i = 0; i < 2; i++)
        if (folders[i][0] && path && !strncmp(path, folders[i], strlen(folders[i]))) return 1;
    return 0;
}

static int file_below(int file) {
    char link[64], path[PATH_MAX];
    if (!folders[0][0]) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return below(path);
}

/* Whether this call fails. A process that ends in the middle of a write leaves half of it. */
static int fails(int file, const void *data, size_t size) {
    if (calls++ != chosen) return 0;
    if (failure) {
        errno = failure;
        return 1;
    }
    ssize_t (*write_half)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
    if (data && size > 1 && write_half(file, data, size / 2) < 0) _exit(9);
    kill(getpid(), SIGKILL);
    return 1;
}

#define OPENS(name, before, before_names, ...)                          \
    int name(before const char *path, int flags, ...) {                 \
        static int (*real)(before const char *, int, ...);              \
        mode_t mode = 0;                                                \
        if (flags & (O_CREAT | O_TMPFILE)) {                            \
            va_list rest;                                               \
            va_start(rest, flags);                                      \
            mode = va_arg(rest, mode_t);                                \
            va_end(rest);                                               \
        }                                                               \
        if (!real) real = dlsym(RTLD_NEXT, #name);                      \
        if (below(path) && fails(-1, NULL, 0)) return -1;               \
        return real(before_names path, flags, mode);                    \
    }
#define NOTHING
#define COMMA ,
OPENS(open, NOTHING, NOTHING)
OPENS(open64, NOTHING, NOTHING)
OPENS(openat, int folder COMMA, folder COMMA)
OPENS(openat64, int folder COMMA, folder COMMA)

#define READS(name)                                                     \
    ssize_t name(int file, void *data, size_t size) {                   \
        static ssize_t (*real)(int, void *, size_t);                    \
        if (!real) real = dlsym(RTLD_NEXT, #name);                      \
        if (file_below(file) && fails(file, NULL, 0)) return -1;        \
        return real(file, data, size);                                  \
    }
READS(read)

ssize_t write(int file, const void *data, size_t size) {
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) real = dlsym(RTLD_NEXT, "write");
    if (file_below(file) && fails(file, data, size)) return -1;
    return real(file, data, size);
}

#define AT(name, kind)                                                  \
    ssize_t name(int file, kind data, size_t size, off_t place) {       \
        static ssize_t (*real)(int, kind, size_t, off_t);               \
        if (!real) real = dlsym(RTLD_NEXT, #name);                      \
        if (file_below(file) && fails(file, NULL, 0)) return -1;        \
        return real(file, data, size, place);                           \
    }
AT(pread, void *)
AT(pread64, void *)
AT(pwrite, const void *)
AT(pwrite64, const void *)

#define FLUSHES(name)                                                   \
    int name(int file) {                                                \
        static int (*real)(int);                                        \
        if (!real) real = dlsym(RTLD_NEXT, #name);                      \
        if (file_below(file) && fails(file, NULL, 0)) return -1;        \
        return real(file);                                              \
    }
FLUSHES(fsync)
FLUSHES(fdatasync)

int rename(const char *from, const char *to) {
    static int (*real)(const char *, const char *);
    if (!real) real = dlsym(RTLD_NEXT, "rename");
    if ((below(from) || below(to)) && fails(-1, NULL, 0)) return -1;
    return real(from, to);
}

int renameat(int old, const char *from, int new, const char *to) {
    static int (*real)(int, const char *, int, const char *);
    if (!real) real = dlsym(RTLD_NEXT, "renameat");
    if ((below(from) || below(to)) && fails(-1, NULL, 0)) return -1;
    return real(old, from, new, to);
}
