/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Many MADs for one call: the loop over umad_send() and umad_recv() that Python does not have to run.
 */
#ifndef IBKEYS_BATCH_H
#define IBKEYS_BATCH_H

#include <stdint.h>

#include <infiniband/umad.h>

#define IBKEYS_MAD_SIZE 256
#define IBKEYS_NAME_LEN UMAD_CA_NAME_LEN

/* The columns of a batch that is sent: columns[COLUMN * count + i] belongs to MAD i. */
enum {
	IBKEYS_SEND_LENGTH,
	IBKEYS_SEND_LID,
	IBKEYS_SEND_TIMEOUT_MS,
	IBKEYS_SEND_QPN,
	IBKEYS_SEND_QKEY,
	IBKEYS_SEND_SL,
	IBKEYS_SEND_PKEY_INDEX,
	IBKEYS_SEND_COLUMNS,
};

/* The columns of a batch that was received: rows[i * IBKEYS_RECV_COLUMNS + COLUMN] belongs to MAD i. */
enum {
	IBKEYS_RECV_LENGTH,
	IBKEYS_RECV_STATUS,
	IBKEYS_RECV_LID,
	IBKEYS_RECV_QPN,
	IBKEYS_RECV_COLUMNS,
};

/* Sends count MADs that lie one behind the other in mads. agents[class] is the agent of a management class, negative
 * where there is none. errors[i] becomes 0 or the errno of MAD i. A refused MAD does not hold up the next one; what
 * concerns the device as a whole (gone, full, interrupted) ends the batch, and all MADs not sent get that errno.
 * Returns the number of MADs that were not sent. */
int ibkeys_send_batch(int fd, const int32_t *agents, const uint8_t *mads, const uint32_t *columns, int count,
		      int32_t *errors);

/* Waits up to timeout_ms for a MAD, then takes all that are there, at most max, into slots of 256 bytes.
 * Returns their number, 0 when nothing came, or a negative errno: -EINTR after a signal. */
int ibkeys_recv_batch(int fd, uint8_t *mads, int32_t *rows, int max, int timeout_ms);

/* Waits until one of two ports has something. Returns 0 or a negative errno. */
int ibkeys_poll_pair(int fd, int other_fd, int timeout_ms);

/* Writes the name of the device that carries the GMPs of smi_name. Returns 0, -ENODEV when libibumad knows no such
 * pair, -ENOSYS when it is too old to know pairs. */
int ibkeys_gsi_of(const char *smi_name, char *gsi_name);

#endif
