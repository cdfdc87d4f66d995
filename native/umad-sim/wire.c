/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Records to and from the server. Nothing here keeps anything, so threads need no lock and a fork needs no care.
 */
#define _GNU_SOURCE
#include "wire.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { MOST_BODY = 160 * 1024 /* a P_Key table has at most 65535 entries */ };

/* The first thread that comes here says why, and ends the others too. A child that another thread forked meanwhile
 * has another process ID, and ends by itself. */
void wire_end(const char *why)
{
	static _Atomic pid_t ending;

	if (atomic_exchange(&ending, getpid()) == getpid())
		for (;;)
			pause();
	dprintf(STDERR_FILENO, "ibkeys: process %d ends: %s\n", getpid(), why);
	_exit(1);
}

void wire_expect(int holds)
{
	if (!holds)
		wire_end("what serves the simulated fabric is not of this version of ibkeys");
}

static const char *setting(const char *name, const char *otherwise)
{
	const char *value = getenv(name);

	return value && *value ? value : otherwise;
}

static int dial(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const char *name = setting("IBKEYS_SIM_SOCKET", "sim");
	int length = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "%s:umad", name);
	socklen_t size = offsetof(struct sockaddr_un, sun_path) + 1 + length;
	char why[160];
	int fd;

	if (length >= (int)sizeof(address.sun_path) - 1)
		wire_end("IBKEYS_SIM_SOCKET is too long for the name of a socket");
	/* as libibumad's own descriptors: handed on to what the program starts */
	fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	if (fd < 0)
		return -errno;
	while (connect(fd, (struct sockaddr *)&address, size)) {
		if (errno == EINTR)
			continue;
		snprintf(why, sizeof(why), "no simulated fabric is served under the name '%.80s' (%s)", name,
			 strerror(errno));
		wire_end(why);
	}
	return fd;
}

/* Sends all parts at once: a record of an open port is far too short for the kernel to split it. */
static int send_parts(int fd, const struct iovec *parts, int count, const int *descriptors, int held)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(WIRE_PASSED * sizeof(int))];
	} control = {0};
	struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = count};

	if (held) {
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(held * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(held * sizeof(int));
		memcpy(CMSG_DATA(&control.header), descriptors, held * sizeof(int));
	}
	while (sendmsg(fd, &message, MSG_NOSIGNAL) < 0) {
		struct pollfd room = {fd, POLLOUT, 0};

		if (errno == EPIPE || errno == ECONNRESET)
			wire_end("the simulated fabric is gone");
		/* too many descriptors are on their way: the server has not taken them yet */
		if (errno == ETOOMANYREFS)
			poll(NULL, 0, 1);
		else if (errno == EAGAIN)
			poll(&room, 1, -1);
		else if (errno != EINTR)
			return -1;
	}
	return 0;
}

/* A text of a server, which may be any user's, must not command the terminal. */
static void hide_controls(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

int wire_ask(enum wire_question question, const char *ca, int port, struct wire_answer *answer, void **body,
	     size_t *size, int passed[WIRE_PASSED])
{
	struct wire_hello hello = {WIRE_MAGIC, WIRE_VERSION, question, port, "", ""};
	struct iovec out = {&hello, sizeof(hello)}, in[2] = {{answer, sizeof(*answer)}};
	const char *host = setting("IBKEYS_SIM_HOST", "");
	ssize_t got;
	int fd;

	if (strlen(host) >= sizeof(hello.host))
		wire_end("IBKEYS_SIM_HOST is longer than the name of any host");
	strcpy(hello.host, host);
	if (ca && strlen(ca) >= sizeof(hello.ca))
		return -ENODEV;
	strcpy(hello.ca, ca ? ca : "");
	*body = malloc(MOST_BODY + 1);
	if (!*body)
		return -ENOMEM;
	in[1] = (struct iovec){*body, MOST_BODY};
	fd = dial();
	if (fd < 0) {
		free(*body);
		return fd;
	}
	if (send_parts(fd, &out, 1, NULL, 0) || (got = wire_receive(fd, in, 2, 0, passed)) < (ssize_t)sizeof(*answer))
		wire_end("the simulated fabric is gone");
	close(fd);
	*size = got - sizeof(*answer);
	((char *)*body)[*size] = '\0';
	if (answer->error < 0) {
		hide_controls(*body);
		wire_end(*body);
	}
	if (answer->error) {
		wire_drop(passed, 0);
		free(*body);
	}
	return -answer->error;
}

int wire_get(enum wire_question question, const char *ca, int port, struct wire_answer *answer, void **body,
	     size_t *size)
{
	int passed[WIRE_PASSED], failed = wire_ask(question, ca, port, answer, body, size, passed);

	if (!failed)
		wire_drop(passed, 0);
	return failed;
}

int wire_send(int fd, struct iovec *parts, int count, int reply, int memory)
{
	static const char zeros[WIRE_BODY];
	int descriptors[WIRE_PASSED], held = 0, each;
	size_t size = 0;

	for (each = 1; each < count; each++)
		size += parts[each].iov_len;
	((struct wire_record *)parts->iov_base)->size = size;
	if (size < WIRE_BODY)
		parts[count++] = (struct iovec){(void *)zeros, WIRE_BODY - size};
	if (reply >= 0)
		descriptors[held++] = reply;
	if (memory >= 0)
		descriptors[held++] = memory;
	return send_parts(fd, parts, count, descriptors, held);
}

int wire_call(int fd, struct iovec *parts, int count, int memory, struct wire_reply *reply)
{
	int pair[2], ignored[WIRE_PASSED], saved;
	struct iovec in = {reply, sizeof(*reply)};
	ssize_t got = -1;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -1;
	((struct wire_record *)parts->iov_base)->flags |= WIRE_REPLY;
	saved = wire_send(fd, parts, count, pair[1], memory) ? errno : 0;
	close(pair[1]);
	if (!saved)
		got = wire_receive(pair[0], &in, 1, 0, ignored);
	if (got >= 0)
		wire_drop(ignored, 0);
	close(pair[0]);
	if (saved) {
		errno = saved;
		return -1;
	}
	if (got != sizeof(*reply))
		wire_end("the simulated fabric is gone");
	return 0;
}

void wire_drop(const int passed[WIRE_PASSED], int first)
{
	for (; first < WIRE_PASSED; first++)
		if (passed[first] >= 0)
			close(passed[first]);
}

ssize_t wire_receive(int fd, const struct iovec *parts, int count, int flags, int passed[WIRE_PASSED])
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(WIRE_PASSED * sizeof(int))];
	} control;
	struct msghdr message = {
		.msg_iov = (struct iovec *)parts,
		.msg_iovlen = count,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	size_t size;
	ssize_t got;
	int each;

	for (each = 0; each < WIRE_PASSED; each++)
		passed[each] = -1;
	do {
		got = recvmsg(fd, &message, flags | MSG_CMSG_CLOEXEC);
	} while (got < 0 && errno == EINTR);
	if (got < 0 && errno == ECONNRESET)
		return 0;
	if (got > 0 && message.msg_controllen >= CMSG_LEN(sizeof(int)) && control.header.cmsg_type == SCM_RIGHTS) {
		size = control.header.cmsg_len - CMSG_LEN(0);
		memcpy(passed, CMSG_DATA(&control.header), size < sizeof(int[WIRE_PASSED]) ? size : sizeof(int[WIRE_PASSED]));
	}
	return got;
}
