/* Prelude of the source that cffi writes: calls of the kernel for which the C library has no function. */
#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* of linux/landlock.h, which old headers do not have; the numbers are the same on every machine */
struct landlock_ruleset {
	uint64_t accesses;
};
struct landlock_beneath {
	uint64_t accesses;
	int32_t directory;
} __attribute__((packed));
enum { LANDLOCK_CREATE = 444, LANDLOCK_ADD = 445, LANDLOCK_RESTRICT = 446, LANDLOCK_PATH_BENEATH = 1 };

/* Drops all capabilities for good: no program that is executed later gets one, not even as root. */
static int ibkeys_drop_capabilities(void)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
	int each;

	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	for (each = 0; prctl(PR_CAPBSET_READ, each, 0, 0, 0) >= 0; each++)
		if (prctl(PR_CAPBSET_READ, each, 0, 0, 0) && prctl(PR_CAPBSET_DROP, each, 0, 0, 0) && !geteuid())
			return -1; /* whoever is not root gets none without it either: no_new_privs */
	return syscall(SYS_capset, &header, none);
}

static int ibkeys_no_new_privileges(void)
{
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* The kernel kills this process when the thread that made it ends. */
static int ibkeys_die_with_parent(void)
{
	return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
}

static int ibkeys_landlock_create(uint64_t accesses)
{
	struct landlock_ruleset handled = {accesses};

	return syscall(LANDLOCK_CREATE, &handled, sizeof(handled), 0);
}

static int ibkeys_landlock_allow(int ruleset, int directory, uint64_t accesses)
{
	struct landlock_beneath beneath = {accesses, directory};

	return syscall(LANDLOCK_ADD, ruleset, LANDLOCK_PATH_BENEATH, &beneath, 0);
}

static int ibkeys_landlock_restrict(int ruleset)
{
	return syscall(LANDLOCK_RESTRICT, ruleset, 0);
}
