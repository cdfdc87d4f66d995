/*
 * Preloaded by shim.py: every system call that writes is a point at which the process can be made to die, or
 * from which on the disk can be made to fail. So are, before and after, each change of a name and each signal sent.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define REAL(type, name, ...) ((type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name))

enum mode { OFF, COUNT, KILL, NO_SPACE, NO_SYNC };

static enum mode mode = OFF;
static long left;
static long passed;
static void (*told)(const char *call);

/* Whom each point that is counted is told of, by the name of its call. */
void crash_tell(void (*whom)(const char *call))
{
    told = whom;
}

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
static int point(const char *call)
{
    if (mode == OFF)
        return 0;
    if (left > 0 || mode == COUNT) {
        if (told) {
            void (*whom)(const char *call) = told;
            told = 0; /* what it does itself, as to end this process, is no point */
            whom(call);
            told = whom;
        }
        left--;
        passed++;
        return 0;
    }
    if (mode == KILL)
        REAL(int, kill, pid_t, int)(getpid(), SIGKILL);
    return 1;
}

/* A point that is no system call. */
int crash_point(void)
{
    return point("point");
}

static int write_fails(const char *call)
{
    if (point(call) && mode == NO_SPACE) {
        errno = ENOSPC;
        return 1;
    }
    return 0;
}

static int sync_fails(const char *call)
{
    if (point(call) && mode == NO_SYNC) {
        errno = EIO;
        return 1;
    }
    return 0;
}

ssize_t write(int fd, const void *data, size_t size)
{
    return write_fails(__func__) ? -1 : REAL(ssize_t, write, int, const void *, size_t)(fd, data, size);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at)
{
    return write_fails(__func__) ? -1 : REAL(ssize_t, pwrite, int, const void *, size_t, off_t)(fd, data, size, at);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at)
{
    return write_fails(__func__) ? -1 : REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t)(fd, data, size, at);
}

int ftruncate(int fd, off_t size)
{
    return write_fails(__func__) ? -1 : REAL(int, ftruncate, int, off_t)(fd, size);
}

int ftruncate64(int fd, off64_t size)
{
    return write_fails(__func__) ? -1 : REAL(int, ftruncate64, int, off64_t)(fd, size);
}

int fsync(int fd)
{
    return sync_fails(__func__) ? -1 : REAL(int, fsync, int)(fd);
}

int fdatasync(int fd)
{
    return sync_fails(__func__) ? -1 : REAL(int, fdatasync, int)(fd);
}

int unlink(const char *path)
{
    point(__func__);
    return REAL(int, unlink, const char *)(path);
}

/* The body of each open: *permissions* are given only where a file may be made, and making one is a write. */
#define OPENED(call)                                                                                                   \
    mode_t permissions = 0;                                                                                            \
    if (flags & O_CREAT) {                                                                                             \
        va_list list;                                                                                                  \
        va_start(list, flags);                                                                                         \
        permissions = va_arg(list, mode_t);                                                                            \
        va_end(list);                                                                                                  \
        if (write_fails(__func__))                                                                                     \
            return -1;                                                                                                 \
    }                                                                                                                  \
    return call

int open(const char *path, int flags, ...)
{
    OPENED((REAL(int, open, const char *, int, ...)(path, flags, permissions)));
}

int open64(const char *path, int flags, ...)
{
    OPENED((REAL(int, open64, const char *, int, ...)(path, flags, permissions)));
}

int openat(int folder, const char *path, int flags, ...)
{
    OPENED((REAL(int, openat, int, const char *, int, ...)(folder, path, flags, permissions)));
}

int openat64(int folder, const char *path, int flags, ...)
{
    OPENED((REAL(int, openat64, int, const char *, int, ...)(folder, path, flags, permissions)));
}

/* A call before which and after which is a point. */
#define AROUND(call)                                                                                                   \
    point(__func__);                                                                                                   \
    int result = call;                                                                                                 \
    int error = errno;                                                                                                 \
    point("after");                                                                                                    \
    errno = error;                                                                                                     \
    return result

int unlinkat(int folder, const char *path, int flags)
{
    AROUND((REAL(int, unlinkat, int, const char *, int)(folder, path, flags)));
}

int rename(const char *old, const char *new)
{
    AROUND((REAL(int, rename, const char *, const char *)(old, new)));
}

int renameat(int from, const char *old, int to, const char *new)
{
    AROUND((REAL(int, renameat, int, const char *, int, const char *)(from, old, to, new)));
}

int renameat2(int from, const char *old, int to, const char *new, unsigned int flags)
{
    AROUND((REAL(int, renameat2, int, const char *, int, const char *, unsigned int)(from, old, to, new, flags)));
}

int fchmod(int fd, mode_t permissions)
{
    point(__func__);
    return REAL(int, fchmod, int, mode_t)(fd, permissions);
}

int fchown(int fd, uid_t user, gid_t group)
{
    point(__func__);
    return REAL(int, fchown, int, uid_t, gid_t)(fd, user, group);
}

int kill(pid_t process, int number)
{
    if (number == 0)
        return REAL(int, kill, pid_t, int)(process, number);
    AROUND((REAL(int, kill, pid_t, int)(process, number)));
}

/* Python sends a signal to a descriptor of a process by this. */
long syscall(long number, ...)
{
    long words[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        words[i] = va_arg(list, long);
    va_end(list);
    int signals = number == SYS_pidfd_send_signal && words[1] != 0;
    if (signals)
        point(__func__);
    long result = REAL(long, syscall, long, ...)(number, words[0], words[1], words[2], words[3], words[4], words[5]);
    int error = errno;
    if (signals)
        point("after");
    errno = error;
    return result;
}
