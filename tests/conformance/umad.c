/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * What a program may expect of libibumad and of the kernel under it, claim by claim. It knows nothing of simulators: it
 * runs on any libibumad, on a port that is Active or not, and changes nothing on the fabric but this: it registers agents
 * and asks for NodeInfo. Prints one line for each claim, "ok" or "not ok", and ends with the number of those not ok.
 *
 *     umad [CA [PORT]]
 */
#include <errno.h>
#include <infiniband/umad.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LONG = 2000, SHORT = 60, MAD = 256, HEADER = 64, NOWHERE = 254 };

static int failures;
static uint32_t transaction = 0x1000;

static void claim(int holds, const char *what, const char *source)
{
	printf("%s - %s (%s)\n", holds ? "ok" : "not ok", what, source);
	failures += !holds;
}

struct buffer {
	struct ib_user_mad head;
	uint8_t data[1024];
};

/* Makes a Get(NodeInfo) by directed route: to the port itself, or on from it. Returns the TransactionID. */
static uint32_t node_info(struct buffer *buffer, const uint8_t *path, int hops)
{
	uint8_t *mad = umad_get_mad(buffer);

	memset(buffer, 0, sizeof(*buffer));
	umad_set_addr(buffer, 0xffff, 0, 0, 0);
	mad[0] = 1, mad[1] = 0x81, mad[2] = 1, mad[3] = 1;
	mad[7] = hops;
	memset(mad + 8, 0xee, 4);
	transaction++;
	mad[12] = transaction >> 24, mad[13] = transaction >> 16, mad[14] = transaction >> 8, mad[15] = transaction;
	mad[17] = 0x11;
	memset(mad + 32, 0xff, 4);
	if (hops)
		memcpy(mad + 129, path, hops);
	return transaction;
}

static uint32_t number_of(const uint8_t *mad)
{
	return (uint32_t)mad[12] << 24 | mad[13] << 16 | mad[14] << 8 | mad[15];
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static void agents(const char *ca, int port)
{
	long trap[16 / sizeof(long)] = {1 << 5}, both[16 / sizeof(long)] = {1 << 5 | 1 << 6};
	int fd = umad_open_port(ca, port), beside = umad_open_port(ca, port), first, second, each, last;
	uint8_t oui[3] = {0x12, 0x34, 0x56}, none[3] = {0};
	struct umad_reg_attr attributes = {.mgmt_class = 3, .mgmt_class_version = 2, .flags = UMAD_USER_RMPP, .rmpp_version = 1};
	uint32_t id = 77;

	first = umad_register(fd, 0x0a, 1, 0, trap);
	claim(first == 0, "the first agent is 0", "user_mad.c: ib_umad_reg_agent");
	claim(umad_register(beside, 0x0a, 1, 0, both) == -EPERM, "a class and method has one owner", "mad.c: method_in_use");
	second = umad_register(fd, 0x0a, 1, 0, NULL);
	claim(second == 1, "without methods there are several", "mad.c: method_in_use");
	claim(umad_unregister(fd, first) == 0, "an agent can be taken away", "user_mad.c: ib_umad_unreg_agent");
	claim(umad_unregister(fd, first) < 0 && errno == EINVAL, "but once", "user_mad.c: ib_umad_unreg_agent");
	each = umad_register(beside, 0x0a, 1, 0, both);
	claim(each >= 0, "then it owns nothing any more", "mad.c: remove_mad_reg_req");
	umad_close_port(beside);
	claim(umad_register(fd, 0x0a, 1, 0, both) == 0, "nor after its port was closed", "user_mad.c: ib_umad_close");
	claim(umad_register(fd, 3, 2, 2, NULL) == -EPERM, "RMPP has version 1", "mad.c: ib_register_mad_agent");
	claim(umad_register(fd, 0x81, 1, 1, NULL) == -EPERM, "SMPs have no RMPP", "mad.c: ib_register_mad_agent");
	claim(umad_register(fd, 0x60, 1, 0, NULL) == -EPERM, "there is no class 0x60", "mad.c: ib_register_mad_agent");
	claim(umad_register_oui(fd, 0x32, 0, oui, trap) >= 0, "a vendor class has an OUI", "mad.c: ib_register_mad_agent");
	claim(umad_register_oui(fd, 0x32, 0, none, trap) == -EPERM, "which is not 0", "mad.c: ib_register_mad_agent");
	claim(umad_register_oui(fd, 0x0a, 0, oui, trap) == -EINVAL, "class 0x0a has none", "umad.c: umad_register_oui");
	claim(umad_register2(fd, &attributes, &id) == 0 && id < 32, "umad_register2", "umad.c: umad_register2");
	attributes.flags = 1 << 7;
	claim(umad_register2(fd, &attributes, &id) == EINVAL, "flags that nobody knows", "user_mad.c: ib_umad_reg_agent2");
	for (last = 0, each = 0; each < 40 && last >= 0; each++)
		last = umad_register(fd, 0x04, 1, 0, NULL);
	claim(each <= 33, "32 agents are the most", "user_mad.c: IB_UMAD_MAX_AGENTS");
	umad_close_port(fd);
}

static void sending(const char *ca, int port, int number)
{
	uint8_t lost[2] = {number, NOWHERE}, wrong[1] = {number == 1 ? 2 : 1};
	int fd = umad_open_port(ca, port), agent = umad_register(fd, 0x81, 1, 0, NULL), length, got, hops = number ? 2 : 1;
	struct buffer buffer, again;
	uint8_t *mad = umad_get_mad(&buffer);
	struct pollfd waiting = {umad_get_fd(fd), POLLIN, 0};
	uint32_t id;
	double begin;

	if (!number)
		lost[0] = NOWHERE;
	claim(umad_size() == HEADER, "the umad header has 64 bytes", "umad.c: umad_size");
	length = MAD;
	errno = 0;
	got = umad_recv(fd, &buffer, &length, 0);
	claim(got == -EAGAIN && errno == EAGAIN, "nothing is there: EAGAIN", "umad.c: umad_recv");
	got = umad_recv(fd, &buffer, &length, SHORT);
	claim(got == -ETIMEDOUT, "nothing comes: ETIMEDOUT", "umad.c: umad_recv");
	claim(umad_poll(fd, 0) == -ETIMEDOUT, "umad_poll says so too", "umad.c: umad_poll");
	claim(umad_recv(fd, NULL, &length, 0) == -EINVAL, "a buffer is needed", "umad.c: umad_recv");

	id = node_info(&buffer, NULL, 0);
	claim(!umad_send(fd, agent, &buffer, MAD, LONG, 0), "a request is sent", "user_mad.c: ib_umad_write");
	claim(poll(&waiting, 1, LONG) == 1 && waiting.revents & POLLIN, "the descriptor gets readable",
	      "user_mad.c: ib_umad_poll");
	claim(umad_poll(fd, LONG) == 0, "umad_poll says so too", "umad.c: umad_poll");
	length = 255;
	claim(umad_recv(fd, &again, &length, LONG) == -EINVAL, "a buffer that is too small", "user_mad.c: copy_recv_mad");
	length = sizeof(buffer.data);
	memset(&buffer, 0xaa, sizeof(buffer));
	got = umad_recv(fd, &buffer, &length, LONG);
	claim(got == agent && length == MAD, "the answer is still there", "user_mad.c: ib_umad_read");
	claim(umad_status(&buffer) == 0 && buffer.head.length == HEADER + MAD, "status and length", "user_mad.c: recv_handler");
	claim(mad[3] == 0x81 && mad[4] & 0x80 && number_of(mad) == id, "it is the answer", "IBA 14.2.2");
	claim(memcmp(mad + 8, "\xee\xee\xee\xee", 4) != 0, "the kernel owns half of the TransactionID",
	      "user_mad.c: ib_umad_write");
	claim(buffer.head.addr.qpn == 0 && buffer.head.addr.grh_present == 0, "from QP 0, without GRH",
	      "user_mad.c: recv_handler");
	claim(umad_get_pkey(&buffer) == 0, "the P_Key index of an SMP is 0", "user_mad.c: recv_handler");

	node_info(&buffer, NULL, 0);
	claim(umad_send(fd, agent + 1, &buffer, MAD, LONG, 0) == -EIO, "an agent that is not there", "user_mad.c: __get_agent");
	claim(umad_send(fd, 32, &buffer, MAD, LONG, 0) == -EIO && errno == EINVAL, "nor can be", "user_mad.c: __get_agent");
	claim(umad_send(fd, agent, &buffer, 35, LONG, 0) == -EIO && errno == EINVAL, "a MAD has 36 bytes at least",
	      "user_mad.c: ib_umad_write");
	claim(umad_send(fd, agent, &buffer, MAD + 1, LONG, 0) == -EIO && errno == EINVAL, "and 256 at most, without RMPP",
	      "mad.c: ib_create_send_mad");
	if (number) {
		node_info(&buffer, wrong, 1);
		claim(umad_send(fd, agent, &buffer, MAD, LONG, 0) == -EIO && errno == EINVAL,
		      "a directed route begins at the own port", "smi.c: smi_handle_dr_smp_send");
	}

	id = node_info(&buffer, lost, hops);
	again = buffer;
	begin = now();
	claim(!umad_send(fd, agent, &buffer, MAD, SHORT, 2), "a request to nowhere is sent", "user_mad.c: ib_umad_write");
	claim(umad_send(fd, agent, &again, MAD, SHORT, 2) == -EIO && errno == EINVAL, "the same once more is refused",
	      "user_mad.c: is_duplicate");
	length = MAD;
	memset(&buffer, 0, sizeof(buffer));
	got = umad_recv(fd, &buffer, &length, LONG);
	claim(got == agent && umad_status(&buffer) == ETIMEDOUT, "it comes back with status ETIMEDOUT",
	      "user_mad.c: send_handler");
	claim(length == 24 && number_of(mad) == id && mad[3] == 1, "as its header", "user_mad.c: send_handler");
	claim(now() - begin >= 3 * SHORT / 1e3, "after all retries", "mad.c: timeout_sends");
	claim(!umad_send(fd, agent, &again, MAD, SHORT, 0), "then it may be sent again", "user_mad.c: dequeue_send");
	length = MAD;
	umad_recv(fd, &buffer, &length, LONG);

	node_info(&buffer, lost, hops);
	claim(!umad_send(fd, agent, &buffer, MAD, 0, 0), "without a timeout", "user_mad.c: ib_umad_write");
	claim(umad_recv(fd, &buffer, &length, SHORT) == -ETIMEDOUT, "nothing comes back", "mad.c: ib_mad_complete_send_wr");

	node_info(&buffer, lost, hops);
	umad_send(fd, agent, &buffer, MAD, SHORT, 0);
	umad_unregister(fd, agent);
	claim(umad_recv(fd, &buffer, &length, 3 * SHORT) == -ETIMEDOUT, "an agent takes with it what waits",
	      "mad.c: cancel_mads");
	umad_close_port(fd);
}

static void many(const char *ca, int port)
{
	enum { COUNT = 200 };
	int fd = umad_open_port(ca, port), agent = umad_register(fd, 0x81, 1, 0, NULL), each, length, got = 0;
	struct buffer buffer;
	char seen[COUNT] = {0};
	uint32_t first = transaction + 1;

	for (each = 0; each < COUNT; each++) {
		node_info(&buffer, NULL, 0);
		umad_send(fd, agent, &buffer, MAD, LONG, 0);
	}
	for (each = 0; each < COUNT; each++) {
		length = MAD;
		if (umad_recv(fd, &buffer, &length, LONG) == agent && !umad_status(&buffer))
			seen[(number_of(umad_get_mad(&buffer)) - first) % COUNT] = 1;
	}
	for (each = 0; each < COUNT; each++)
		got += seen[each];
	claim(got == COUNT, "200 at once are all answered", "mad.c: ib_send_mad");
	umad_close_port(fd);
}

static void forking(const char *ca, int port)
{
	int fd = umad_open_port(ca, port), agent = umad_register(fd, 0x81, 1, 0, NULL), length = MAD, status;
	struct buffer buffer;
	pid_t child = fork();

	if (!child) {
		node_info(&buffer, NULL, 0);
		_exit(umad_send(fd, agent, &buffer, MAD, LONG, 0) ||
		      umad_recv(fd, &buffer, &length, LONG) != agent || umad_status(&buffer));
	}
	waitpid(child, &status, 0);
	claim(WIFEXITED(status) && !WEXITSTATUS(status), "a child may use what its parent opened", "fork(2)");
	node_info(&buffer, NULL, 0);
	umad_send(fd, agent, &buffer, MAD, LONG, 0);
	claim(umad_recv(fd, &buffer, &length, LONG) == agent, "and its end closes nothing", "fork(2)");
	umad_close_port(fd);
}

int main(int count, char **words)
{
	const char *ca = count > 1 ? words[1] : NULL;
	int port = count > 2 ? atoi(words[2]) : 0, each, found;
	char names[UMAD_MAX_DEVICES][UMAD_CA_NAME_LEN], path[256];
	umad_port_t local;
	umad_ca_t device;

	umad_init();
	found = umad_get_cas_names(names, UMAD_MAX_DEVICES);
	claim(found > 0, "there is an adapter", "umad_get_cas_names(3)");
	if (umad_get_port(ca, port, &local) < 0) {
		claim(0, "there is a port", "umad_get_port(3)");
		return failures;
	}
	for (each = 0; each < found && strcmp(names[each], local.ca_name); each++)
		;
	claim(each < found, "its adapter is one of them", "umad_get_cas_names(3)");
	claim(local.pkeys_size > 0 && local.port_guid, "it has P_Keys and a GUID", "umad_get_port(3)");
	claim(!umad_get_ca(local.ca_name, &device), "the adapter can be described", "umad_get_ca(3)");
	claim(device.ports[local.portnum] && device.ports[local.portnum]->port_guid == local.port_guid,
	      "with the same port", "umad_get_ca(3)");
	umad_release_ca(&device);
	claim(!umad_get_issm_path(local.ca_name, local.portnum, path, sizeof(path)) && path[0] == '/',
	      "there is an issm device", "umad_get_issm_path(3)");
	claim(umad_open_port("nothing", 1) < 0, "what is not there is not opened", "umad_open_port(3)");
	agents(local.ca_name, local.portnum);
	sending(local.ca_name, local.portnum, local.portnum);
	many(local.ca_name, local.portnum);
	forking(local.ca_name, local.portnum);
	umad_release_port(&local);
	umad_done();
	return failures;
}
