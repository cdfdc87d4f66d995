/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Open ports, agents and MADs: what libibumad does with a descriptor of /dev/infiniband/umadN, done with a socket to
 * the server, which knows what the kernel would know.
 */
#define _GNU_SOURCE
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

int umad_open_smi_port(const char *ca_name, int portnum); /* the headers may be older */



/* Of ib_mad_addr.reserved, the server's notes: whether the MAD is beside the record, and its bytes in the record. */
enum { IS_BESIDE = 0, BYTES_HERE = 2 };

/* By descriptor what is shared with the server. For one that has none here, each send is asked for. */
static _Atomic(struct wire_page *) pages[4096];

static struct wire_page *page_of(int fd)
{
	return fd >= 0 && fd < (int)(sizeof(pages) / sizeof(*pages)) ? atomic_load(&pages[fd]) : NULL;
}

static void keep_page(int fd, struct wire_page *page)
{
	struct wire_page *before;

	if (fd >= (int)(sizeof(pages) / sizeof(*pages))) {
		if (page)
			munmap(page, sizeof(*page));
		return;
	}
	before = atomic_exchange(&pages[fd], page);
	if (before)
		munmap(before, sizeof(*before));
}

/* Whether the memory of *fd* has a whole page now and for as long as it is open: a read beyond its end is SIGBUS. */
static int holds_page(int fd)
{
	struct stat about;
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && seals & F_SEAL_SHRINK && !fstat(fd, &about) && about.st_size >= (off_t)sizeof(struct wire_page);
}

int umad_open_port(const char *ca_name, int portnum)
{
	struct wire_answer answer;
	void *body, *page;
	size_t size;
	int passed[WIRE_PASSED], fd, failed = wire_ask(WIRE_OPEN, ca_name, portnum, &answer, &body, &size, passed);

	if (failed)
		return failed;
	free(body);
	fd = passed[0];
	/* as libibumad's own descriptors: handed on to what the program starts */
	if (fd < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, 0) < 0)
		wire_end("the socket to the simulated fabric cannot be used");
	wire_expect(passed[1] < 0 || holds_page(passed[1]));
	page = mmap(NULL, sizeof(struct wire_page), PROT_READ | PROT_WRITE, MAP_SHARED, passed[1], 0);
	if (passed[1] >= 0)
		close(passed[1]);
	keep_page(fd, page == MAP_FAILED ? NULL : page);
	return fd;
}

int umad_open_smi_port(const char *ca_name, int portnum)
{
	return umad_open_port(ca_name, portnum);
}

int umad_close_port(int fd)
{
	if (page_of(fd))
		keep_page(fd, NULL);
	close(fd);
	return 0;
}

int umad_get_fd(int fd)
{
	return fd;
}

/* Agents */

static int register_agent(int fd, const struct wire_agent *agent, uint32_t *id)
{
	struct wire_record record = {.kind = WIRE_REGISTER};
	struct iovec parts[3] = {{&record, sizeof(record)}, {(void *)agent, sizeof(*agent)}};
	struct wire_reply reply;

	if (wire_call(fd, parts, 2, -1, &reply))
		return errno;
	*id = reply.value;
	return reply.error;
}

int umad_register(int fd, int mgmt_class, int mgmt_version, uint8_t rmpp_version,
		  long method_mask[16 / sizeof(long)])
{
	struct wire_agent agent = {
		.oui = 0x001405, /* OpenIB's */
		.mgmt_class = mgmt_class,
		.version = mgmt_version,
		.rmpp_version = rmpp_version,
	};
	uint32_t id;

	if (method_mask)
		memcpy(agent.mask, method_mask, sizeof(agent.mask));
	errno = register_agent(fd, &agent, &id);
	return errno ? -EPERM : (int)id;
}

int umad_register_oui(int fd, int mgmt_class, uint8_t rmpp_version, uint8_t oui[3],
		      long method_mask[16 / sizeof(long)])
{
	struct wire_agent agent = {.version = 1, .rmpp_version = rmpp_version};
	uint32_t id;

	if (mgmt_class < 0x30 || mgmt_class > 0x4f)
		return -EINVAL;
	agent.mgmt_class = mgmt_class;
	agent.oui = (uint32_t)oui[0] << 16 | oui[1] << 8 | oui[2];
	if (method_mask)
		memcpy(agent.mask, method_mask, sizeof(agent.mask));
	errno = register_agent(fd, &agent, &id);
	return errno ? -EPERM : (int)id;
}

int umad_register2(int fd, struct umad_reg_attr *attr, uint32_t *agent_id)
{
	struct wire_agent agent = {0};
	uint32_t id;
	int error;

	if (!attr || !agent_id)
		return EINVAL;
	if (attr->mgmt_class >= 0x30 && attr->mgmt_class <= 0x4f && (!(attr->oui & 0xffffff) || attr->oui >> 24))
		return EINVAL;
	if (attr->flags & ~(uint32_t)UMAD_USER_RMPP) {
		attr->flags = UMAD_USER_RMPP;
		return EINVAL;
	}
	memcpy(agent.mask, attr->method_mask, sizeof(agent.mask));
	agent.mgmt_class = attr->mgmt_class;
	agent.version = attr->mgmt_class_version;
	agent.flags = attr->flags;
	agent.oui = attr->oui;
	agent.rmpp_version = attr->rmpp_version;
	error = register_agent(fd, &agent, &id);
	if (!error)
		*agent_id = id;
	return error;
}

int umad_unregister(int fd, int agentid)
{
	struct wire_record record = {.kind = WIRE_UNREGISTER};
	struct iovec parts[3] = {{&record, sizeof(record)}, {&agentid, sizeof(agentid)}};
	struct wire_reply reply;

	if (wire_call(fd, parts, 2, -1, &reply))
		return -1;
	errno = reply.error;
	return reply.error ? -1 : 0;
}

/* Sending */

/* Whether the kernel's write() would certainly succeed. What is not certain the server is asked for. */
static int is_taken(const struct wire_page *page, int agent, const uint8_t *mad, int length)
{
	int hops = mad[7];

	if (agent < 0 || agent >= UMAD_CA_MAX_AGENTS || !(page->agents >> agent & 1))
		return 0;
	if (length < RMPP_HEADER || length > WIRE_INLINE)
		return 0;
	if (mad[1] != 0x81)
		return 1;
	/* a directed route begins at this port, and a response is the rare case (Linux smi.c) */
	return length == WIRE_INLINE && !(mad[3] & 0x80) && !mad[6] && hops < 64 &&
	       (!hops || page->is_switch || mad[129] == page->port);
}

/* Notes the send. Returns whether a request with the same class and TransactionID may wait for its answer: the server
 * counts in done[] what waits no more. */
static int may_be_twice(struct wire_page *page, const uint8_t *mad)
{
	unsigned slot = ((mad[14] << 8 | mad[15]) ^ mad[1]) % WIRE_SLOTS;
	uint16_t before = __atomic_fetch_add(&page->sent[slot], 1, __ATOMIC_RELAXED);

	return before != __atomic_load_n(&page->done[slot], __ATOMIC_RELAXED);
}

static int memory_with(const void *data, size_t size)
{
	int fd = memfd_create("umad", MFD_CLOEXEC);

	while (fd >= 0 && size) {
		ssize_t wrote = write(fd, data, size);

		if (wrote < 0) {
			close(fd);
			return -1;
		}
		data = (const char *)data + wrote;
		size -= wrote;
	}
	return fd;
}

static int send_mad(int fd, struct ib_user_mad *mad, int length, enum wire_kind kind)
{
	struct wire_record record = {.kind = kind};
	struct iovec parts[4] = {{&record, sizeof(record)}, {mad, HEADER}, {mad->data, length}};
	struct wire_page *page = page_of(fd);
	struct wire_reply reply = {0};
	int memory = -1, failed, ask = 1;

	if (length > WIRE_INLINE) {
		memory = memory_with(mad->data, length);
		if (memory < 0)
			return errno;
		record.flags = WIRE_MEMORY;
		parts[2].iov_len = 0;
		mad->length = HEADER + length;
	}
	if (kind == WIRE_SEND && page && length >= RMPP_HEADER) {
		ask = !is_taken(page, mad->agent_id, mad->data, length);
		ask |= may_be_twice(page, mad->data);
	}
	if (kind == WIRE_NOT_TAKEN || !ask)
		failed = wire_send(fd, parts, 3, -1, memory);
	else
		failed = wire_call(fd, parts, 3, memory, &reply);
	failed = failed ? errno : reply.error;
	if (memory >= 0)
		close(memory);
	return failed;
}

int umad_send(int fd, int agentid, void *umad, int length, int timeout_ms, int retries)
{
	struct ib_user_mad *mad = umad;

	mad->timeout_ms = timeout_ms;
	mad->retries = retries;
	mad->agent_id = agentid;
	if (wire_debug > 1)
		umad_dump(mad);
	errno = length < RMPP_HEADER || length > WIRE_MOST ? EINVAL : send_mad(fd, mad, length, WIRE_SEND);
	return errno ? -EIO : 0;
}

/* Receiving */

static int wait_for(int fd, int timeout_ms)
{
	struct pollfd waiting = {fd, POLLIN, 0};
	int found = poll(&waiting, 1, timeout_ms);

	if (found == 1)
		return 0;
	return found ? -EIO : -ETIMEDOUT;
}

int umad_poll(int fd, int timeout_ms)
{
	int failed = wait_for(fd, timeout_ms);
	char first;

	if (!failed && !recv(fd, &first, 1, MSG_PEEK | MSG_DONTWAIT))
		wire_end("the simulated fabric is gone");
	return failed;
}

static int fill(struct ib_user_mad *mad, size_t size, int memory)
{
	size_t at = 0;

	while (at < size) {
		ssize_t got = pread(memory, mad->data + at, size - at, at);

		if (got <= 0)
			return -EIO;
		at += got;
	}
	return 0;
}

/* The bytes of the MAD that are in a record. */
static int bytes_here(const struct ib_user_mad *head)
{
	uint16_t bytes;

	memcpy(&bytes, head->addr.reserved + BYTES_HERE, sizeof(bytes));
	wire_expect(bytes <= WIRE_INLINE);
	return bytes;
}

/* The bytes of the MAD in, or beside, a record of *got* bytes. */
static int size_of(const struct ib_user_mad *head, ssize_t got, int is_beside)
{
	wire_expect(got == WIRE_BODY);
	if (!is_beside)
		return bytes_here(head);
	wire_expect(head->length > WIRE_BODY && head->length <= HEADER + WIRE_MOST);
	return (int)head->length - HEADER;
}

/* Gives a program the header of a record, without the server's notes. */
static void give_header(struct ib_user_mad *mad, const struct ib_user_mad *head)
{
	memcpy(mad, head, HEADER);
	memset(mad->addr.reserved, 0, sizeof(mad->addr.reserved));
}

/* Takes the next MAD, as read() of the kernel's device: 0, or a negative errno with the MAD still there. */
static int take(int fd, struct ib_user_mad *mad, int *length)
{
	union {
		struct ib_user_mad head;
		char bytes[WIRE_BODY];
	} next, taken;
	struct ib_user_mad *head = &next.head;
	struct iovec part = {&taken, sizeof(taken)};
	ssize_t got = recv(fd, &next, sizeof(next), MSG_PEEK | MSG_DONTWAIT);
	int passed[WIRE_PASSED], memory, failed, size;

	if (!got || (got < 0 && errno == ECONNRESET))
		wire_end("the simulated fabric is gone");
	if (got < 0)
		return -errno;
	size = size_of(head, got, head->addr.reserved[IS_BESIDE]);
	if (*length < (size > WIRE_INLINE ? WIRE_INLINE : size))
		return -EINVAL;
	if (*length < size) { /* the first segment, and how much there is */
		give_header(mad, head);
		memcpy(mad->data, next.bytes + HEADER, WIRE_INLINE);
		return -ENOSPC;
	}
	got = wire_receive(fd, &part, 1, MSG_DONTWAIT, passed);
	if (!got)
		wire_end("the simulated fabric is gone");
	if (got < 0)
		return -errno;
	memory = passed[0];
	wire_drop(passed, 1);
	size = size_of(&taken.head, got, memory >= 0);
	give_header(mad, &taken.head);
	if (*length < size) {
		/* Another thread or process took the one that was looked at, and this one does not fit. */
		struct wire_record record = {.kind = WIRE_NOT_TAKEN, .flags = memory >= 0 ? WIRE_MEMORY : 0};
		int here = bytes_here(&taken.head);
		struct iovec parts[3] = {{&record, sizeof(record)}, {&taken, HEADER + here}};

		wire_send(fd, parts, 2, -1, memory);
		failed = size > WIRE_INLINE ? -ENOSPC : -EINVAL;
		memcpy(mad->data, taken.bytes + HEADER, *length < here ? *length : here);
	} else if (memory >= 0) {
		*length = size;
		failed = fill(mad, size, memory);
	} else {
		*length = size;
		failed = 0;
		memcpy(mad->data, taken.bytes + HEADER, size);
	}
	if (memory >= 0)
		close(memory);
	return failed;
}

int umad_recv(int fd, void *umad, int *length, int timeout_ms)
{
	struct ib_user_mad *mad = umad;
	int failed;

	errno = 0;
	if (!umad || !length) {
		errno = EINVAL;
		return -EINVAL;
	}
	failed = take(fd, mad, length);
	if (failed == -EAGAIN && timeout_ms) {
		errno = 0;
		failed = wait_for(fd, timeout_ms);
		if (failed < 0) {
			if (!errno)
				errno = -failed;
			return failed;
		}
		failed = take(fd, mad, length);
	}
	if (!failed)
		return mad->agent_id;
	if (failed == -ENOSPC)
		*length = mad->length - HEADER;
	errno = -failed;
	return failed;
}
