/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Threads that share ports, open and close others and are cancelled while they wait, and, with "forks", children that
 * are killed at any moment. All that is asked is answered: ends with 0.
 */
#include <errno.h>
#include <infiniband/umad.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 16, ROUNDS = 40, LONG = 20000, MAD = 256 };

static atomic_uint transaction = 1;
static atomic_int failures;

static void ask(void *umad)
{
	uint8_t *mad = umad_get_mad(umad);
	unsigned number = atomic_fetch_add(&transaction, 1);

	memset(umad, 0, umad_size() + MAD);
	umad_set_addr(umad, 0xffff, 0, 0, 0);
	mad[0] = 1, mad[1] = 0x81, mad[2] = 1, mad[3] = 1, mad[17] = 0x11;
	mad[12] = number >> 24, mad[13] = number >> 16, mad[14] = number >> 8, mad[15] = number;
	memset(mad + 32, 0xff, 4);
}

static void converse(int fd, int agent, int rounds)
{
	void *umad = umad_alloc(1, umad_size() + MAD);
	int length, got;

	while (rounds--) {
		ask(umad);
		if (umad_send(fd, agent, umad, MAD, LONG, 0)) {
			atomic_fetch_add(&failures, 1);
			continue;
		}
		do { /* another thread may take what this one waited for, on the kernel's device too */
			length = MAD;
			got = umad_recv(fd, umad, &length, LONG);
		} while (got == -EAGAIN);
		if (got < 0 || umad_status(umad))
			atomic_fetch_add(&failures, 1);
	}
	umad_free(umad);
}

static int shared_fd, shared_agent;

static void *sharing(void *unused)
{
	(void)unused;
	converse(shared_fd, shared_agent, ROUNDS);
	return NULL;
}

static void *opening(void *unused)
{
	int round;

	(void)unused;
	for (round = 0; round < ROUNDS / 8; round++) {
		int fd = umad_open_port(NULL, 0), agent = umad_register(fd, 0x81, 1, 0, NULL);
		umad_port_t port;

		converse(fd, agent, 8);
		if (umad_get_port(NULL, 0, &port))
			atomic_fetch_add(&failures, 1);
		else
			umad_release_port(&port);
		umad_unregister(fd, agent);
		umad_close_port(fd);
	}
	return NULL;
}

static void *waiting(void *fd)
{
	char room[64 + MAD];
	int length = MAD;

	umad_recv(*(int *)fd, room, &length, -1);
	return NULL;
}

static void forks(void)
{
	int round;

	for (round = 0; round < 30; round++) {
		pid_t child = fork();

		if (!child) {
			for (;;)
				opening(NULL);
		}
		usleep(round * 700);
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
}

int main(int count, char **words)
{
	pthread_t threads[THREADS], waiter;
	int each, fd = umad_open_port(NULL, 0);

	shared_fd = umad_open_port(NULL, 0);
	shared_agent = umad_register(shared_fd, 0x81, 1, 0, NULL);
	pthread_create(&waiter, NULL, waiting, &fd);
	for (each = 0; each < THREADS; each++)
		pthread_create(&threads[each], NULL, each % 2 ? sharing : opening, NULL);
	if (count > 1 && !strcmp(words[1], "forks"))
		forks();
	for (each = 0; each < THREADS; each++)
		pthread_join(threads[each], NULL);
	pthread_cancel(waiter);
	pthread_join(waiter, NULL);
	each = umad_register(fd, 0x81, 1, 0, NULL); /* as OpenSM, when it has cancelled its receiver */
	umad_unregister(fd, each);
	umad_close_port(fd);
	umad_close_port(shared_fd);
	printf("%d failures\n", atomic_load(&failures));
	return atomic_load(&failures) != 0;
}
