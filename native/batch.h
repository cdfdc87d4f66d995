/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Many MADs in one call: the loops over umad_send() and umad_recv(), which would be slow in Python. Called by
 * ibkeys/umad/libibumad.py.
 */
#ifndef IBKEYS_BATCH_H
#define IBKEYS_BATCH_H

#include <stdint.h>

#include <infiniband/umad.h>

#define IBKEYS_MAD_SIZE 256

/* A MAD, and where it goes: what Outgoing has in ibkeys/umad/port.py. Made there by record_head. */
struct ibkeys_record {
	uint32_t length;
	uint32_t lid;
	uint32_t timeout_ms;
	uint32_t qpn;
	uint32_t qkey;
	uint32_t sl;
	uint32_t pkey_index;
	uint8_t mad[IBKEYS_MAD_SIZE];
};

/* What one request asked, kept to match its answer. tid: the lower half of the TransactionID, in host order; 0: no
 * request is here. modifier, attribute: as on the wire. */
struct ibkeys_asked {
	uint32_t tid;
	uint32_t modifier;
	uint16_t attribute;
	uint8_t mgmt_class;
};

/* How many requests are kept: the one with TransactionID tid is at tid % IBKEYS_ASKED. A later one may take its place;
 * then its answer is not matched here, but handed on as it came. */
#define IBKEYS_ASKED 1024

/* The columns of what was received: rows[i * IBKEYS_RECV_COLUMNS + COLUMN] belongs to MAD i. */
enum {
	IBKEYS_RECV_LENGTH,
	IBKEYS_RECV_STATUS,
	IBKEYS_RECV_LID,
	IBKEYS_RECV_QPN,
	IBKEYS_RECV_COLUMNS,
};

/* Where answers to SMPs go: TransactionIDs (lower half), and the 64 bytes of data of each, one behind the other. count
 * is set by ibkeys_recv_batch(). */
#define IBKEYS_DATA_SIZE 64
struct ibkeys_answers {
	struct ibkeys_asked *asked;
	uint32_t *tids;
	uint8_t *data;
	int32_t count;
};

/* Sends count MADs. records: as many struct ibkeys_record, not aligned. tids (lower half), attributes and modifiers
 * are written into their MADs, and kept in asked, which has IBKEYS_ASKED places. agents[class] is the agent of a
 * management class, negative where there is none. The kernel makes one attempt: retries are the scheduler's.
 * errors[i] becomes 0 or the errno of MAD i. A refused MAD does not hold up the next one; what concerns the device as
 * a whole (gone, full, interrupted) ends the batch, and all MADs not sent get that errno.
 * Returns the number of MADs that were not sent. */
int ibkeys_send_batch(int fd, const int32_t *agents, const uint8_t *records, const uint32_t *tids,
		      const uint16_t *attributes, const uint32_t *modifiers, struct ibkeys_asked *asked, int count,
		      int32_t *errors);

/* Waits up to timeout_ms for a MAD, then takes all that are there, at most max. Answers that match a request go into
 * answers, unless that is NULL: SMPs of 256 bytes with Status 0, asked for and not answered yet. All others, timeouts
 * too, go into mads, slots of 256 bytes, and rows.
 * Returns the number of both together, 0 when nothing came, or a negative errno: -EINTR after a signal. */
int ibkeys_recv_batch(int fd, uint8_t *mads, int32_t *rows, struct ibkeys_answers *answers, int max, int timeout_ms);

/* Waits until one of two ports has something. Returns 0 or a negative errno. */
int ibkeys_poll_pair(int fd, int other_fd, int timeout_ms);

#endif
