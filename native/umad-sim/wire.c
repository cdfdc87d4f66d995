/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Records to and from the server. Nothing here keeps anything, so threads need no lock and a fork needs no care.
 */
#define _GNU_SOURCE
#include "wire.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { DESCRIPTORS = 2, MOST_BODY = 160 * 1024 /* a P_Key table has at most 65535 entries */ };

void wire_end(const char *why)
{
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

int wire_ask(enum wire_question question, const char *ca, int port, struct wire_answer *answer, void **body,
	     size_t *size, int *memory)
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
	if (wire_send(fd, &out, 1, -1, -1) || (got = wire_receive(fd, in, 2, 0, memory)) < (ssize_t)sizeof(*answer))
		wire_end("the simulated fabric is gone");
	*size = got - sizeof(*answer);
	((char *)*body)[*size] = '\0';
	if (answer->error < 0)
		wire_end(*body);
	if (!answer->error)
		return fd;
	close(fd);
	free(*body);
	return -answer->error;
}

int wire_get(enum wire_question question, const char *ca, int port, struct wire_answer *answer, void **body,
	     size_t *size)
{
	int memory = -1, fd = wire_ask(question, ca, port, answer, body, size, &memory);

	if (fd < 0)
		return fd;
	close(fd);
	if (memory >= 0)
		close(memory);
	return 0;
}

int wire_send(int fd, const struct iovec *parts, int count, int reply, int memory)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
	} control = {0};
	struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = count};
	int descriptors[DESCRIPTORS], held = 0;

	if (reply >= 0)
		descriptors[held++] = reply;
	if (memory >= 0)
		descriptors[held++] = memory;
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

int wire_call(int fd, struct iovec *parts, int count, int memory, struct wire_reply *reply)
{
	int pair[2], ignored, saved;
	struct iovec in = {reply, sizeof(*reply)};
	ssize_t got = -1;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -1;
	((struct wire_record *)parts->iov_base)->flags |= WIRE_REPLY;
	saved = wire_send(fd, parts, count, pair[1], memory) ? errno : 0;
	close(pair[1]);
	if (!saved)
		got = wire_receive(pair[0], &in, 1, 0, &ignored);
	close(pair[0]);
	if (saved) {
		errno = saved;
		return -1;
	}
	if (got != sizeof(*reply))
		wire_end("the simulated fabric is gone");
	return 0;
}

ssize_t wire_receive(int fd, const struct iovec *parts, int count, int flags, int *memory)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr message = {
		.msg_iov = (struct iovec *)parts,
		.msg_iovlen = count,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	ssize_t got;

	*memory = -1;
	do {
		got = recvmsg(fd, &message, flags | MSG_CMSG_CLOEXEC);
	} while (got < 0 && errno == EINTR);
	if (got < 0 && errno == ECONNRESET)
		return 0;
	if (got > 0 && message.msg_controllen >= CMSG_LEN(sizeof(int)) && control.header.cmsg_type == SCM_RIGHTS)
		memcpy(memory, CMSG_DATA(&control.header), sizeof(int));
	return got;
}
