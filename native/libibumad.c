/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * libibumad, loaded when it is first needed and not linked: one built extension works on hosts with any libibumad, and
 * can be imported where there is none. Each function below has the name and the arguments of one of <infiniband/umad.h>
 * and hands them on. None may be called before ibkeys_load() returned NULL.
 */
#define _GNU_SOURCE /* dlvsym() */
#include "libibumad.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

/* Without a slash: the loader looks where it looks for every library, not in the current folder, and the extension is
 * built without a run path. */
#define SONAME "libibumad.so.3"

/* What another library calls umad_recv is not taken for libibumad's. Each release since 2017 (rdma-core) gives its
 * functions this version; musl knows no versions. */
#ifdef __GLIBC__
#define find(library, name) dlvsym(library, name, "IBUMAD_1.0")
#else
#define find(library, name) dlsym(library, name)
#endif

/* F(TYPE, NAME, PARAMETERS, ARGUMENTS) for each function that the extension calls */
#define EACH_FUNCTION(F) \
	F(int, umad_get_ca, (const char *name, umad_ca_t *ca), (name, ca)) \
	F(int, umad_release_ca, (umad_ca_t *ca), (ca)) \
	F(int, umad_get_port, (const char *name, int number, umad_port_t *port), (name, number, port)) \
	F(int, umad_release_port, (umad_port_t *port), (port)) \
	F(int, umad_open_port, (const char *name, int number), (name, number)) \
	F(int, umad_close_port, (int fd), (fd)) \
	F(int, umad_register, (int fd, int class, int version, uint8_t rmpp, long *mask), (fd, class, version, rmpp, mask)) \
	F(int, umad_unregister, (int fd, int agent), (fd, agent)) \
	F(int, umad_send, (int fd, int agent, void *umad, int length, int timeout_ms, int retries), \
	  (fd, agent, umad, length, timeout_ms, retries)) \
	F(int, umad_recv, (int fd, void *umad, int *length, int timeout_ms), (fd, umad, length, timeout_ms)) \
	F(int, umad_get_fd, (int fd), (fd)) \
	F(int, umad_status, (void *umad), (umad)) \
	F(void *, umad_get_mad, (void *umad), (umad)) \
	F(ib_mad_addr_t *, umad_get_mad_addr, (void *umad), (umad)) \
	F(int, umad_set_addr, (void *umad, int lid, int qpn, int sl, int qkey), (umad, lid, qpn, sl, qkey)) \
	F(int, umad_set_grh, (void *umad, void *grh), (umad, grh)) \
	F(int, umad_set_pkey, (void *umad, int index), (umad, index))

#define DEFINE(type, name, parameters, arguments) \
	static type(*loaded_##name) parameters; \
	__attribute__((visibility("hidden"))) type name parameters \
	{ \
		return loaded_##name arguments; \
	}
EACH_FUNCTION(DEFINE)

/* Of libibumad since 2025 (umad_get_smi_gsi_pairs(3)): HCAs that carry SMPs and GMPs on two devices. Declared here,
 * because the headers that the extension is built with may be older than the library that it meets. */
struct pair {
	char smi_name[UMAD_CA_NAME_LEN];
	uint32_t smi_preferred_port;
	char gsi_name[UMAD_CA_NAME_LEN];
	uint32_t gsi_preferred_port;
};
static int (*loaded_pairs)(struct pair *pairs, size_t max);

/* Of the libibumad for simulated fabrics (umad-sim/): it knows the devices of its host, which are in no sysfs. */
static int (*loaded_names)(char names[][UMAD_CA_NAME_LEN], int max);

const char *ibkeys_load(void)
{
	void *library = dlopen(SONAME, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return dlerror();
#define FIND(type, name, parameters, arguments) \
	if (!(loaded_##name = (type(*) parameters)find(library, #name))) \
		return dlerror();
	EACH_FUNCTION(FIND)
	loaded_pairs = (int (*)(struct pair *, size_t))dlsym(library, "umad_get_smi_gsi_pairs");
	if (dlsym(library, "ibkeys_simulated_fabric"))
		loaded_names = (int (*)(char[][UMAD_CA_NAME_LEN], int))dlsym(library, "umad_get_cas_names");
	return NULL;
}

int ibkeys_simulated_names(char *names)
{
	return loaded_names ? loaded_names((char(*)[UMAD_CA_NAME_LEN])names, UMAD_MAX_DEVICES) : -ENOSYS;
}

int ibkeys_gsi_of(const char *smi_name, char *gsi_name)
{
	struct pair pairs[UMAD_MAX_PORTS];
	int count, i;

	if (!loaded_pairs)
		return -ENOSYS;
	count = loaded_pairs(pairs, UMAD_MAX_PORTS);
	for (i = 0; i < count; i++) {
		if (strncmp(pairs[i].smi_name, smi_name, UMAD_CA_NAME_LEN))
			continue;
		memcpy(gsi_name, pairs[i].gsi_name, UMAD_CA_NAME_LEN);
		return gsi_name[0] ? 0 : -ENODEV;
	}
	return -ENODEV;
}
