/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * The least that a program over libibumad can do: keep a window of SubnGet(NodeInfo) in flight on the routes given and
 * count the replies. No scheduler, no retries, nothing is looked at but the TransactionID.
 *
 * bare_loop WINDOW COUNT HOPS,... [HOPS,...]    e.g. bare_loop 64 100000 1,4 1,5
 * Prints the seconds that COUNT replies took.
 */
#include <endian.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <infiniband/umad.h>

#define MAD_SIZE 256
#define CLASS 0x81
#define TID_AT 8
#define PATH_AT 128

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

static void build(uint8_t *mad, const char *hops)
{
	char *end = NULL;

	memset(mad, 0, MAD_SIZE);
	mad[0] = 1;	/* BaseVersion */
	mad[1] = CLASS;
	mad[2] = 1;	/* ClassVersion */
	mad[3] = 1;	/* SubnGet */
	mad[17] = 0x11; /* NodeInfo */
	memset(mad + 32, 0xff, 4);
	for (; *hops; hops = *end ? end + 1 : end)
		mad[PATH_AT + ++mad[7]] = strtol(hops, &end, 10);
}

int main(int argc, char **argv)
{
	int window = argc > 3 ? atoi(argv[1]) : 0, count = argc > 3 ? atoi(argv[2]) : 0, routes = argc - 3;
	int sent = 0, replies = 0, fd, agent, i;
	uint8_t *mads, *umad;
	double start;

	if (window < 1 || count < 1)
		return fprintf(stderr, "usage: bare_loop WINDOW COUNT HOPS...\n"), 2;
	mads = malloc((size_t)routes * MAD_SIZE);
	for (i = 0; i < routes; i++)
		build(mads + i * MAD_SIZE, argv[3 + i]);
	fd = umad_open_port(NULL, 0);
	agent = fd < 0 ? fd : umad_register(fd, CLASS, 1, 0, NULL);
	if (agent < 0)
		return fprintf(stderr, "bare_loop: no port\n"), 1;
	umad = calloc(1, umad_size() + MAD_SIZE);

	start = seconds();
	while (replies < count) {
		int length = MAD_SIZE;

		for (; sent < count && sent - replies < window; sent++) {
			uint64_t tid = htobe64(sent + 1);
			uint8_t *mad = umad_get_mad(umad);

			memcpy(mad, mads + sent % routes * MAD_SIZE, MAD_SIZE);
			memcpy(mad + TID_AT, &tid, sizeof(tid));
			umad_set_addr(umad, 0xffff, 0, 0, 0);
			if (umad_send(fd, agent, umad, MAD_SIZE, 1000, 0) < 0)
				return fprintf(stderr, "bare_loop: not sent\n"), 1;
		}
		if (umad_recv(fd, umad, &length, 5000) < 0 || umad_status(umad))
			return fprintf(stderr, "bare_loop: no reply\n"), 1;
		replies++;
	}
	printf("%.6f\n", seconds() - start);
	umad_unregister(fd, agent);
	umad_close_port(fd);
	return 0;
}
