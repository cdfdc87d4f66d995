/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * The records that this library and `ibkeys sim serve` exchange; ibkeys/sim/server/umad/wire.py says what each means.
 * Numbers are in the byte order of the host, what is __be is as on the wire of InfiniBand.
 */
#ifndef WIRE_H
#define WIRE_H

#include <infiniband/umad.h>
#include <stdint.h>
#include <sys/uio.h>

enum {
	WIRE_MAGIC = 0x44414d55, /* UMAD */
	WIRE_VERSION = 2,
	WIRE_INLINE = 256, /* bytes of a MAD in a record; a longer one is in a memory file beside it */
	WIRE_SLOTS = 1024,
	WIRE_MOST = 64 << 20, /* bytes of the longest MAD */
	RMPP_HEADER = 36, /* ib_umad_write() takes no MAD that is shorter */
	HEADER = sizeof(struct ib_user_mad),
	WIRE_BODY = HEADER + WIRE_INLINE, /* bytes of each record of an open port, without struct wire_record */
	WIRE_PASSED = 2, /* most descriptors beside a record */
};

enum wire_question { WIRE_NAMES = 1, WIRE_CA, WIRE_PORT, WIRE_ISSM, WIRE_OPEN };
enum wire_kind { WIRE_REGISTER = 1, WIRE_UNREGISTER, WIRE_SEND, WIRE_NOT_TAKEN };
enum wire_flag { WIRE_REPLY = 1, WIRE_MEMORY = 2 };

struct wire_hello {
	uint32_t magic, version, question;
	int32_t port;
	char ca[UMAD_CA_NAME_LEN], host[128];
};

struct wire_answer {
	int32_t error;
	uint32_t count;
};

struct wire_ca {
	char name[UMAD_CA_NAME_LEN], fw_ver[20], ca_type[40], hw_ver[20];
	uint32_t node_type, numports;
	__be64 node_guid, system_guid;
} __attribute__((packed));

struct wire_port {
	char ca_name[UMAD_CA_NAME_LEN];
	uint32_t portnum, base_lid, lmc, sm_lid, sm_sl, state, phys_state, rate;
	__be32 capmask;
	__be64 gid_prefix, port_guid;
	uint32_t pkeys_size;
} __attribute__((packed));

struct wire_record {
	uint32_t kind;
	uint16_t flags, size; /* the size is that of the data; zeros fill the rest of the record */
};

struct wire_agent {
	uint8_t mask[16];
	uint32_t flags, oui;
	uint8_t mgmt_class, version, rmpp_version, pad;
};

struct wire_reply {
	int32_t error;
	uint32_t value;
};

/* Shared with the server for as long as a port is open. agents, port, is_switch and done[] are the server's. */
struct wire_page {
	uint32_t agents, port, is_switch, pad;
	uint16_t done[WIRE_SLOTS];
	uint16_t sent[WIRE_SLOTS];
};

/* Ends the process with a line to stderr: the simulated fabric is gone, and a program that takes its absence for an
 * error of one call goes on asking for ever (OpenSM does). */
void wire_end(const char *why) __attribute__((noreturn));

/* Ends the process unless what came is what a server of this version sends. */
void wire_expect(int holds);

/* Asks the server. Returns 0, with the answer in *answer and *size bytes of what follows it in *body, to be freed;
 * passed[] are the descriptors that came with it. A negative errno is what the server says. */
int wire_ask(enum wire_question question, const char *ca, int port, struct wire_answer *answer, void **body,
	     size_t *size, int passed[WIRE_PASSED]);

/* As wire_ask(), without descriptors. */
int wire_get(enum wire_question question, const char *ca, int port, struct wire_answer *answer, void **body,
	     size_t *size);

/* Sends a record of an open port: the first part is its struct wire_record, whose size is set here; after the last
 * part there is room in the array for one more. Returns 0, or -1 with errno. A descriptor of -1 is none. */
int wire_send(int fd, struct iovec *parts, int count, int reply, int memory);

/* Sends a record as wire_send() does, and waits for the reply to it. Returns 0, or -1 with errno. */
int wire_call(int fd, struct iovec *parts, int count, int memory, struct wire_reply *reply);

/* Receives a message or record; passed[] are the descriptors that came with it, -1 for none. Returns its size; 0: the
 * server is gone; -1 with errno. */
ssize_t wire_receive(int fd, const struct iovec *parts, int count, int flags, int passed[WIRE_PASSED]);

/* Closes the descriptors in passed[] from the index *first* on: a server may pass more than was asked for. */
void wire_drop(const int passed[WIRE_PASSED], int first);

extern int wire_debug; /* umad_debug() */

#endif
