/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "batch.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

/* umad_size() is 56 until the first port was opened and 64 afterwards: room for the larger, never a cached value. */
#define HEADER_ROOM 64

/* Errors of the device and not of one MAD: trying the next MAD is of no use. */
static int ends_batch(int error)
{
	switch (error) {
	case EAGAIN:
	case EBADF:
	case ECONNREFUSED:
	case ECONNRESET:
	case EINTR:
	case EIO:
	case ENOBUFS:
	case ENODEV:
	case ENOMEM:
	case ENOTCONN:
	case ENXIO:
	case EPIPE:
		return 1;
	default:
		return 0;
	}
}

/* Of a MAD (IBA 13.4.3) and of an SMP (14.2.1) */
#define MGMT_CLASS_AT 1
#define METHOD_AT 3
#define STATUS_AT 4
#define TID_AT 12
#define ATTRIBUTE_AT 16
#define MODIFIER_AT 20
#define DATA_AT 64
#define SUBN_LID_ROUTED 0x01
#define SUBN_DIRECTED_ROUTE 0x81
/* the method of every answer to an SMP, of a Get as of a Set (14.2.3) */
#define GET_RESP 0x81
/* of a directed route's Status: on the way back */
#define DIRECTION 0x80

/* Writes into a MAD its TransactionID and what it asks, and keeps that to match the answer. */
static void put_request(uint8_t *mad, uint32_t tid, uint16_t attribute, uint32_t modifier, struct ibkeys_asked *places)
{
	struct ibkeys_asked *asked = places + tid % IBKEYS_ASKED;
	uint32_t wire = htobe32(tid);

	asked->tid = tid;
	asked->attribute = htobe16(attribute);
	asked->modifier = htobe32(modifier);
	asked->mgmt_class = mad[MGMT_CLASS_AT];
	memcpy(mad + TID_AT, &wire, sizeof(wire));
	memcpy(mad + ATTRIBUTE_AT, &asked->attribute, sizeof(asked->attribute));
	memcpy(mad + MODIFIER_AT, &asked->modifier, sizeof(asked->modifier));
}

int ibkeys_send_batch(int fd, const int32_t *agents, const uint8_t *records, const uint32_t *tids,
		      const uint16_t *attributes, const uint32_t *modifiers, struct ibkeys_asked *asked, int count,
		      int32_t *errors)
{
	/* libibumad wants its header aligned as struct ib_user_mad is */
	uint64_t umad[(HEADER_ROOM + IBKEYS_MAD_SIZE) / sizeof(uint64_t)];
	struct ibkeys_record record;
	int unsent = 0, i;

	for (i = 0; i < count; i++) {
		int agent, error = 0;

		memcpy(&record, records + i * sizeof(record), sizeof(record));
		agent = record.length > 1 && record.length <= IBKEYS_MAD_SIZE ? agents[record.mad[MGMT_CLASS_AT]] : -1;
		if (agent < 0) {
			error = EPROTONOSUPPORT;
		} else {
			put_request(record.mad, tids[i], attributes[i], modifiers[i], asked);
			memset(umad, 0, sizeof(umad));
			memcpy(umad_get_mad(umad), record.mad, record.length);
			umad_set_addr(umad, record.lid, record.qpn, record.sl, record.qkey);
			umad_set_grh(umad, NULL);
			umad_set_pkey(umad, record.pkey_index);
			errno = 0;
			if (umad_send(fd, agent, umad, record.length, record.timeout_ms, 0) < 0)
				error = errno ? errno : EIO;
		}
		errors[i] = error;
		unsent += error != 0;
		if (ends_batch(error)) {
			for (i++; i < count; i++, unsent++)
				errors[i] = error;
		}
	}
	explicit_bzero(umad, sizeof(umad));
	explicit_bzero(&record, sizeof(record));
	return unsent;
}

/* Takes a MAD that is the answer to a request, with Status 0. Returns 0 for any other MAD. */
static int take_answer(struct ibkeys_answers *answers, const uint8_t *mad)
{
	struct ibkeys_asked *asked;
	uint8_t mgmt_class = mad[MGMT_CLASS_AT];
	uint32_t tid;

	if (mgmt_class != SUBN_LID_ROUTED && mgmt_class != SUBN_DIRECTED_ROUTE)
		return 0;
	if (mad[METHOD_AT] != GET_RESP || mad[STATUS_AT] & ~DIRECTION || mad[STATUS_AT + 1])
		return 0;
	memcpy(&tid, mad + TID_AT, sizeof(tid));
	tid = be32toh(tid);
	asked = answers->asked + tid % IBKEYS_ASKED;
	if (!tid || asked->tid != tid || asked->mgmt_class != mgmt_class)
		return 0;
	if (memcmp(&asked->attribute, mad + ATTRIBUTE_AT, sizeof(asked->attribute)) ||
	    memcmp(&asked->modifier, mad + MODIFIER_AT, sizeof(asked->modifier)))
		return 0;
	asked->tid = 0;
	answers->tids[answers->count] = tid;
	memcpy(answers->data + answers->count * IBKEYS_DATA_SIZE, mad + DATA_AT, IBKEYS_DATA_SIZE);
	answers->count++;
	return 1;
}

int ibkeys_recv_batch(int fd, uint8_t *mads, int32_t *rows, struct ibkeys_answers *answers, int max, int timeout_ms)
{
	uint64_t umad[(HEADER_ROOM + IBKEYS_MAD_SIZE) / sizeof(uint64_t)];
	int n, error = 0;

	if (answers)
		answers->count = 0;
	for (n = 0; n < max; n++) {
		int length = IBKEYS_MAD_SIZE, result;

		/* what a shorter MAD leaves must not be the end of an earlier one, which may hold a key */
		memset(umad, 0, sizeof(umad));
		memset(mads, 0, IBKEYS_MAD_SIZE);
		errno = 0;
		/* only the first one waits: select() and epoll do not work on libumad2sim's descriptors */
		result = umad_recv(fd, umad, &length, n ? 0 : timeout_ms);
		if (result < 0) {
			/* umad_recv() says EIO when poll() was interrupted; errno has the truth. libumad2sim's poll() may
			 * also fail for nothing, without an errno */
			error = result == -ETIMEDOUT ? EAGAIN : errno ? errno : result == -EIO ? EINTR : -result;
			break;
		}
		if (length < 0) /* less than a header came */
			length = 0;
		if (answers && length == IBKEYS_MAD_SIZE && !umad_status(umad) && take_answer(answers, umad_get_mad(umad)))
			continue;
		rows[IBKEYS_RECV_LENGTH] = length;
		rows[IBKEYS_RECV_STATUS] = umad_status(umad);
		rows[IBKEYS_RECV_LID] = be16toh(umad_get_mad_addr(umad)->lid);
		rows[IBKEYS_RECV_QPN] = be32toh(umad_get_mad_addr(umad)->qpn);
		memcpy(mads, umad_get_mad(umad), length);
		rows += IBKEYS_RECV_COLUMNS;
		mads += IBKEYS_MAD_SIZE;
	}
	explicit_bzero(umad, sizeof(umad));
	/* what came before an error is returned first; the error comes again with the next call */
	return n ? n : error == EAGAIN ? 0 : -error;
}

int ibkeys_poll_pair(int fd, int other_fd, int timeout_ms)
{
	struct pollfd fds[2] = {
		{ .fd = umad_get_fd(fd), .events = POLLIN },
		{ .fd = umad_get_fd(other_fd), .events = POLLIN },
	};

	return poll(fds, 2, timeout_ms) < 0 ? -errno : 0;
}
