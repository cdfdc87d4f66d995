/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "batch.h"

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
	case EINTR:
	case EIO:
	case ENOBUFS:
	case ENODEV:
	case ENOMEM:
	case ENXIO:
		return 1;
	default:
		return 0;
	}
}

int ibkeys_send_batch(int fd, const int32_t *agents, const uint8_t *mads, const uint32_t *columns, int count,
		      int32_t *errors)
{
	/* libibumad wants its header aligned as struct ib_user_mad is */
	uint64_t umad[(HEADER_ROOM + IBKEYS_MAD_SIZE) / sizeof(uint64_t)];
	const uint8_t *mad = mads;
	int unsent = 0, i;

	for (i = 0; i < count; i++) {
		const uint32_t *at = columns + i;
		uint32_t length = at[IBKEYS_SEND_LENGTH * count];
		int agent = length > 1 && length <= IBKEYS_MAD_SIZE ? agents[mad[1]] : -1;
		int error = 0;

		if (agent < 0) {
			error = EPROTONOSUPPORT;
		} else {
			memset(umad, 0, HEADER_ROOM);
			memcpy(umad_get_mad(umad), mad, length);
			umad_set_addr(umad, at[IBKEYS_SEND_LID * count], at[IBKEYS_SEND_QPN * count],
				      at[IBKEYS_SEND_SL * count], at[IBKEYS_SEND_QKEY * count]);
			umad_set_grh(umad, NULL);
			umad_set_pkey(umad, at[IBKEYS_SEND_PKEY_INDEX * count]);
			errno = 0;
			if (umad_send(fd, agent, umad, length, at[IBKEYS_SEND_TIMEOUT_MS * count], 0) < 0)
				error = errno ? errno : EIO;
		}
		errors[i] = error;
		unsent += error != 0;
		mad += length;
		if (ends_batch(error)) {
			for (i++; i < count; i++, unsent++)
				errors[i] = error;
		}
	}
	return unsent;
}

int ibkeys_recv_batch(int fd, uint8_t *mads, int32_t *rows, int max, int timeout_ms)
{
	uint64_t umad[(HEADER_ROOM + IBKEYS_MAD_SIZE) / sizeof(uint64_t)];
	int n, error = 0;

	for (n = 0; n < max; n++) {
		int32_t *row = rows + n * IBKEYS_RECV_COLUMNS;
		int length = IBKEYS_MAD_SIZE, result;

		errno = 0;
		/* only the first one waits: select() and epoll do not work on libumad2sim's descriptors */
		result = umad_recv(fd, umad, &length, n ? 0 : timeout_ms);
		if (result < 0) {
			/* umad_recv() says EIO when poll() was interrupted; errno has the truth. libumad2sim's poll() may
			 * also fail for nothing, without an errno */
			error = result == -ETIMEDOUT ? EAGAIN : errno ? errno : result == -EIO ? EINTR : -result;
			break;
		}
		row[IBKEYS_RECV_LENGTH] = length;
		row[IBKEYS_RECV_STATUS] = umad_status(umad);
		row[IBKEYS_RECV_LID] = be16toh(umad_get_mad_addr(umad)->lid);
		row[IBKEYS_RECV_QPN] = be32toh(umad_get_mad_addr(umad)->qpn);
		memcpy(mads, umad_get_mad(umad), length);
		mads += IBKEYS_MAD_SIZE;
	}
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

int ibkeys_gsi_of(const char *smi_name, char *gsi_name)
{
#ifdef HAVE_UMAD_SMI_GSI
	struct umad_ca_pair pairs[UMAD_MAX_PORTS];
	int count = umad_get_smi_gsi_pairs(pairs, UMAD_MAX_PORTS), i;

	for (i = 0; i < count; i++) {
		if (strncmp(pairs[i].smi_name, smi_name, UMAD_CA_NAME_LEN))
			continue;
		memcpy(gsi_name, pairs[i].gsi_name, UMAD_CA_NAME_LEN);
		return gsi_name[0] ? 0 : -ENODEV;
	}
	return -ENODEV;
#else
	(void)smi_name;
	(void)gsi_name;
	return -ENOSYS;
#endif
}
