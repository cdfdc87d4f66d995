/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * libibumad as it is on this host: loaded when asked for, see libibumad.c.
 */
#ifndef IBKEYS_LIBIBUMAD_H
#define IBKEYS_LIBIBUMAD_H

#include <infiniband/umad.h>

#define IBKEYS_NAME_LEN UMAD_CA_NAME_LEN
#define IBKEYS_MOST_NAMES UMAD_MAX_DEVICES

/* Loads libibumad. Returns NULL, or what the loader says; then no other function here and in batch.h may be called. */
const char *ibkeys_load(void);

/* Writes the names of the devices of a simulated host, IBKEYS_MOST_NAMES at most of IBKEYS_NAME_LEN bytes each. Returns
 * their number, -ENOSYS when the libibumad is none for simulated fabrics. */
int ibkeys_simulated_names(char *names);

/* Writes the name of the device that carries the GMPs of smi_name. Returns 0, -ENODEV when libibumad knows no such
 * pair, -ENOSYS when it is too old to know pairs. */
int ibkeys_gsi_of(const char *smi_name, char *gsi_name);

#endif
