/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * The kernel's RMPP sender (drivers/infiniband/core/mad_rmpp.c) for a program on libumad2sim, which has none: preloaded
 * in front of it, for OpenSM. An answer that its writer marks Active is sent in segments of 220 payload bytes: one at
 * first, then as many as the receiver's acknowledgements allow, again after RMPP_RESEND_MS (2000) without one. What the
 * receiver says (ACK, STOP, ABORT) is taken here and does not reach the program.
 *
 * It also mends what libumad2sim 0.10 reads: of each MAD that hands on 224 bytes, and behind them whatever lay there.
 * For that it is compiled a second time, with BELOW, and preloaded behind libumad2sim too, by the asker as by OpenSM.
 *
 * RMPP_LOSE=N loses N of a hundred segments, RMPP_TWICE=N sends as many twice.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum { PACKET = 288 /* of ibsim's protocol: 32 bytes, then the MAD */ };

void rmpp_keep(const uint8_t *packet);

#ifdef BELOW

ssize_t read(int fd, void *buffer, size_t size)
{
	static ssize_t (*next_read)(int, void *, size_t);
	ssize_t got;

	if (!next_read)
		next_read = (ssize_t(*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");
	got = next_read(fd, buffer, size);
	if (got == PACKET)
		rmpp_keep(buffer);
	return got;
}

#else

enum {
	FIRST_FD = 1024, /* libumad2sim's descriptors */
	LAST_FD = 1031,
	UMAD = 64,
	MAD = 256,
	HEADER = 56,
	DATA = MAD - HEADER,
	PAYLOAD = 220,
	SUBN_ADM = 3,
	ACTIVE = 1,
	FIRST = 2,
	LAST = 4,
	TYPE_DATA = 1,
	TYPE_ACK = 2,
	RETRIES = 7,
	HANDED_ON = 224,
	KEPT = 4096,
};

struct transfer {
	struct transfer *next;
	uint8_t *umad;
	uint32_t data_length, count, acknowledged, sent, window_last;
	int fd, retries;
	int64_t deadline;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct transfer *transfers;
static ssize_t (*next_write)(int, const void *, size_t);
static ssize_t (*next_read)(int, void *, size_t);
static long resend_ms, lose, twice;
static uint8_t kept[KEPT][MAD];
static unsigned kept_first, kept_last;

static int64_t now_ms(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec * 1000LL + at.tv_nsec / 1000000;
}

static long setting(const char *name, long otherwise)
{
	const char *text = getenv(name);

	return text ? atol(text) : otherwise;
}

static void put32(uint8_t *at, uint32_t value)
{
	value = htonl(value);
	memcpy(at, &value, 4);
}

static uint32_t get32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, 4);
	return ntohl(value);
}

static void send_segment(const struct transfer *t, uint32_t number)
{
	uint8_t umad[UMAD + MAD] = { 0 }, *mad = umad + UMAD;
	uint32_t start = (number - 1) * DATA, length = t->data_length - start, payload = 0;
	uint8_t flags = ACTIVE;

	if (length > DATA)
		length = DATA;
	memcpy(umad, t->umad, UMAD + HEADER);
	memcpy(mad + HEADER, t->umad + UMAD + HEADER + start, length);
	if (number == t->count) {
		flags |= LAST;
		payload = PAYLOAD - DATA + length;
	}
	if (number == 1) {
		flags |= FIRST;
		payload = t->data_length + t->count * (PAYLOAD - DATA);
	}
	mad[24] = 1;
	mad[25] = TYPE_DATA;
	mad[26] = (mad[26] & 0xf8) | flags;
	mad[27] = 0;
	put32(mad + 28, number);
	put32(mad + 32, payload);
	if (rand() % 100 < lose)
		return;
	next_write(t->fd, umad, sizeof(umad));
	if (rand() % 100 < twice)
		next_write(t->fd, umad, sizeof(umad));
}

static void send_window(struct transfer *t)
{
	while (t->sent < t->window_last && t->sent < t->count)
		send_segment(t, ++t->sent);
	t->deadline = now_ms() + resend_ms;
}

static void drop(struct transfer **place)
{
	struct transfer *t = *place;

	*place = t->next;
	free(t->umad);
	free(t);
}

static void *resend(void *unused)
{
	const struct timespec tick = { .tv_nsec = 20 * 1000 * 1000 };
	struct transfer **place;

	(void)unused;
	for (;;) {
		nanosleep(&tick, NULL);
		pthread_mutex_lock(&lock);
		for (place = &transfers; *place;) {
			if ((*place)->deadline > now_ms()) {
				place = &(*place)->next;
			} else if (!(*place)->retries--) {
				drop(place);
			} else {
				(*place)->sent = (*place)->acknowledged;
				send_window(*place);
			}
		}
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

static void acknowledged(struct transfer **place, const uint8_t *mad)
{
	struct transfer *t = *place;
	uint32_t number = get32(mad + 28), window_last = get32(mad + 32);

	if (mad[25] != TYPE_ACK || number > t->count || window_last < number) {
		drop(place);
		return;
	}
	if (number < t->acknowledged || window_last < t->window_last)
		return;
	if (number > t->acknowledged)
		t->retries = RETRIES;
	t->acknowledged = number;
	t->window_last = window_last;
	if (t->sent < number)
		t->sent = number;
	if (number == t->count)
		drop(place);
	else
		send_window(t);
}

__attribute__((constructor)) static void begin(void)
{
	pthread_t thread;

	next_write = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
	next_read = (ssize_t(*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");
	resend_ms = setting("RMPP_RESEND_MS", 2000);
	lose = setting("RMPP_LOSE", 0);
	twice = setting("RMPP_TWICE", 0);
	pthread_create(&thread, NULL, resend, NULL);
}

static int is_umad(int fd)
{
	return fd >= FIRST_FD && fd <= LAST_FD;
}

ssize_t write(int fd, const void *buffer, size_t size)
{
	const uint8_t *mad = (const uint8_t *)buffer + UMAD;
	struct transfer *t;

	if (!is_umad(fd) || size < UMAD + HEADER || mad[1] != SUBN_ADM || !(mad[3] & 0x80) || !(mad[26] & ACTIVE))
		return next_write(fd, buffer, size);
	t = calloc(1, sizeof(*t));
	t->umad = malloc(size);
	memcpy(t->umad, buffer, size);
	t->fd = fd;
	t->data_length = size - UMAD - HEADER;
	t->count = t->data_length ? (t->data_length + DATA - 1) / DATA : 1;
	t->window_last = 1;
	t->retries = RETRIES;
	pthread_mutex_lock(&lock);
	t->next = transfers;
	transfers = t;
	send_window(t);
	pthread_mutex_unlock(&lock);
	return size;
}

/* A packet came through libumad2sim's own socket: keep the MAD until the program reads it. */
void rmpp_keep(const uint8_t *packet)
{
	if (packet[PACKET - MAD + 1] != SUBN_ADM)
		return;
	pthread_mutex_lock(&lock);
	memcpy(kept[kept_last++ % KEPT], packet + PACKET - MAD, MAD);
	if (kept_last - kept_first > KEPT)
		kept_first = kept_last - KEPT;
	pthread_mutex_unlock(&lock);
}

static void mend(uint8_t *mad)
{
	unsigned i;

	pthread_mutex_lock(&lock);
	for (i = kept_first; i != kept_last; i++)
		if (!memcmp(kept[i % KEPT], mad, HANDED_ON)) {
			memcpy(mad, kept[i % KEPT], MAD);
			kept_first = i + 1;
			break;
		}
	pthread_mutex_unlock(&lock);
}

static int is_from_receiver(uint8_t *umad)
{
	const uint8_t *mad = umad + UMAD;
	struct transfer **place;

	if (!(mad[26] & ACTIVE) || mad[25] < TYPE_ACK)
		return 0;
	pthread_mutex_lock(&lock);
	for (place = &transfers; *place; place = &(*place)->next)
		if (!memcmp((*place)->umad + UMAD + 8, mad + 8, 8) && !memcmp((*place)->umad + 28, umad + 28, 2)) {
			acknowledged(place, mad);
			break;
		}
	pthread_mutex_unlock(&lock);
	return 1;
}

ssize_t read(int fd, void *buffer, size_t size)
{
	uint8_t *umad = buffer;
	ssize_t got;

	for (;;) {
		got = next_read(fd, buffer, size);
		if (!is_umad(fd) || got < UMAD + HEADER || umad[UMAD + 1] != SUBN_ADM)
			return got;
		if (got == UMAD + MAD)
			mend(umad + UMAD);
		if (umad[UMAD + 3] & 0x80 || !is_from_receiver(umad))
			return got;
		/* libumad2sim's read does not wait */
		poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, -1);
	}
}

#endif
