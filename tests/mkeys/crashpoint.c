/*
 * Preloaded by crash_driver.py: every system call that writes is a point at which the process can be made to die, or
 * from which on the disk can be made to fail.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/types.h>
#include <unistd.h>

enum mode { OFF, COUNT, KILL, NO_SPACE, NO_SYNC };

static enum mode mode = OFF;
static long left;
static long passed;

/* From now on: count points, and when *after* of them have passed do what *what* says. */
void crash_mode(int what, long after)
{
    mode = (enum mode)what;
    left = after;
    passed = 0;
}

long crash_points(void)
{
    return passed;
}

/* A point. Returns whether what is to happen has begun. */
int crash_point(void)
{
    if (mode == OFF)
        return 0;
    if (left > 0 || mode == COUNT) {
        left--;
        passed++;
        return 0;
    }
    if (mode == KILL)
        kill(getpid(), SIGKILL);
    return 1;
}

static int write_fails(void)
{
    if (crash_point() && mode == NO_SPACE) {
        errno = ENOSPC;
        return 1;
    }
    return 0;
}

static int sync_fails(void)
{
    if (crash_point() && mode == NO_SYNC) {
        errno = EIO;
        return 1;
    }
    return 0;
}

#define REAL(type, name, ...) ((type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *data, size_t size)
{
    return write_fails() ? -1 : REAL(ssize_t, write, int, const void *, size_t)(fd, data, size);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at)
{
    return write_fails() ? -1 : REAL(ssize_t, pwrite, int, const void *, size_t, off_t)(fd, data, size, at);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at)
{
    return write_fails() ? -1 : REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t)(fd, data, size, at);
}

int ftruncate(int fd, off_t size)
{
    return write_fails() ? -1 : REAL(int, ftruncate, int, off_t)(fd, size);
}

int ftruncate64(int fd, off64_t size)
{
    return write_fails() ? -1 : REAL(int, ftruncate64, int, off64_t)(fd, size);
}

int fsync(int fd)
{
    return sync_fails() ? -1 : REAL(int, fsync, int)(fd);
}

int fdatasync(int fd)
{
    return sync_fails() ? -1 : REAL(int, fdatasync, int)(fd);
}

int unlink(const char *path)
{
    crash_point();
    return REAL(int, unlink, const char *)(path);
}

#define OPEN(name)                                                                                                     \
    int name(const char *path, int flags, ...)                                                                         \
    {                                                                                                                  \
        mode_t permissions = 0;                                                                                        \
        if (flags & O_CREAT) {                                                                                         \
            va_list list;                                                                                              \
            va_start(list, flags);                                                                                     \
            permissions = va_arg(list, mode_t);                                                                        \
            va_end(list);                                                                                              \
            if (write_fails())                                                                                         \
                return -1;                                                                                             \
        }                                                                                                              \
        return REAL(int, name, const char *, int, ...)(path, flags, permissions);                                     \
    }

OPEN(open)
OPEN(open64)
