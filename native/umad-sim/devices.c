/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * The adapters of the simulated host and their ports. The server knows them; nothing is kept here.
 */
#define _GNU_SOURCE
#include "wire.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* of libibumad since rdma-core 55; the headers may be older */
struct umad_ca_pair {
	char smi_name[UMAD_CA_NAME_LEN];
	uint32_t smi_preferred_port;
	char gsi_name[UMAD_CA_NAME_LEN];
	uint32_t gsi_preferred_port;
};
int umad_get_smi_gsi_pairs(struct umad_ca_pair cas[], size_t max);
int umad_get_smi_gsi_pair_by_ca_name(const char *name, uint8_t port, struct umad_ca_pair *pair);

int ibkeys_simulated_fabric(void);

int ibkeys_simulated_fabric(void)
{
	return WIRE_VERSION;
}

int umad_init(void)
{
	return 0;
}

int umad_done(void)
{
	return 0;
}

int umad_get_cas_names(char cas[][UMAD_CA_NAME_LEN], int max)
{
	struct wire_answer answer;
	void *body;
	size_t size;
	int count = wire_get(WIRE_NAMES, NULL, 0, &answer, &body, &size), each;

	if (count < 0)
		return count;
	wire_expect(size % UMAD_CA_NAME_LEN == 0);
	count = (int)(size / UMAD_CA_NAME_LEN);
	if (count > max)
		count = max;
	if (count > 0)
		memcpy(cas, body, (size_t)count * UMAD_CA_NAME_LEN);
	for (each = 0; each < count; each++)
		cas[each][UMAD_CA_NAME_LEN - 1] = '\0';
	free(body);
	return count;
}

static int get_port(const char *name, int number, umad_port_t *port)
{
	struct wire_answer answer;
	struct wire_port *from;
	void *body;
	size_t size;
	int failed = wire_get(WIRE_PORT, name, number, &answer, &body, &size);

	if (failed)
		return failed;
	from = body;
	wire_expect(size >= sizeof(*from) && (size - sizeof(*from)) / sizeof(*port->pkeys) == from->pkeys_size);
	memset(port, 0, sizeof(*port));
	memcpy(port->ca_name, from->ca_name, sizeof(port->ca_name) - 1);
	port->portnum = from->portnum;
	port->base_lid = from->base_lid;
	port->lmc = from->lmc;
	port->sm_lid = from->sm_lid;
	port->sm_sl = from->sm_sl;
	port->state = from->state;
	port->phys_state = from->phys_state;
	port->rate = from->rate;
	port->capmask = from->capmask;
	port->gid_prefix = from->gid_prefix;
	port->port_guid = from->port_guid;
	strcpy(port->link_layer, "InfiniBand");
	port->pkeys = calloc(from->pkeys_size ? from->pkeys_size : 1, sizeof(*port->pkeys));
	if (!port->pkeys) {
		free(body);
		return -ENOMEM;
	}
	port->pkeys_size = from->pkeys_size;
	memcpy(port->pkeys, from + 1, port->pkeys_size * sizeof(*port->pkeys));
	free(body);
	return 0;
}

int umad_get_port(const char *ca_name, int portnum, umad_port_t *port)
{
	return get_port(ca_name, portnum, port);
}

int umad_release_port(umad_port_t *port)
{
	if (!port)
		return -ENODEV;
	free(port->pkeys);
	port->pkeys = NULL;
	port->pkeys_size = 0;
	return 0;
}

static int get_ports(umad_ca_t *ca)
{
	int number = ca->node_type == 2 ? 0 : 1; /* of a switch only port 0 is a port of its host */

	for (; number <= ca->numports; number++) {
		umad_port_t *port = calloc(1, sizeof(*port));
		int failed = port ? get_port(ca->ca_name, number, port) : -ENOMEM;

		if (failed) {
			free(port);
			return failed;
		}
		ca->ports[number] = port;
	}
	return 0;
}

int umad_get_ca(const char *ca_name, umad_ca_t *ca)
{
	struct wire_answer answer;
	struct wire_ca *from;
	void *body;
	size_t size;
	int failed = wire_get(WIRE_CA, ca_name, 0, &answer, &body, &size);

	if (failed)
		return failed;
	from = body;
	wire_expect(size == sizeof(*from) && from->numports <= 255);
	memset(ca, 0, sizeof(*ca));
	memcpy(ca->ca_name, from->name, sizeof(ca->ca_name) - 1);
	memcpy(ca->fw_ver, from->fw_ver, sizeof(ca->fw_ver) - 1);
	memcpy(ca->ca_type, from->ca_type, sizeof(ca->ca_type) - 1);
	memcpy(ca->hw_ver, from->hw_ver, sizeof(ca->hw_ver) - 1);
	ca->node_type = from->node_type;
	ca->numports = from->numports;
	ca->node_guid = from->node_guid;
	ca->system_guid = from->system_guid;
	free(body);
	if (ca->numports >= UMAD_CA_MAX_PORTS) {
		ca->numports = 0;
		return -EIO;
	}
	failed = get_ports(ca);
	if (failed)
		umad_release_ca(ca);
	return failed;
}

int umad_release_ca(umad_ca_t *ca)
{
	int number;

	if (!ca)
		return -ENODEV;
	for (number = 0; number < UMAD_CA_MAX_PORTS; number++) {
		if (!ca->ports[number])
			continue;
		umad_release_port(ca->ports[number]);
		free(ca->ports[number]);
		ca->ports[number] = NULL;
	}
	return 0;
}

int umad_get_ca_portguids(const char *ca_name, __be64 *portguids, int max)
{
	umad_ca_t ca;
	int number, count = 0;

	if (umad_get_ca(ca_name, &ca) < 0)
		return -1;
	if (portguids) {
		if (ca.numports + 1 > max) {
			umad_release_ca(&ca);
			return -ENOMEM;
		}
		for (number = 0; number <= ca.numports; number++)
			portguids[count++] = ca.ports[number] ? ca.ports[number]->port_guid : 0;
	}
	umad_release_ca(&ca);
	return count;
}

int umad_get_issm_path(const char *ca_name, int portnum, char path[], int max)
{
	struct wire_answer answer;
	void *body;
	size_t size;
	int failed = wire_get(WIRE_ISSM, ca_name, portnum, &answer, &body, &size);

	if (failed)
		return failed;
	snprintf(path, max, "%s", (char *)body);
	free(body);
	return 0;
}

struct umad_device_node *umad_get_ca_device_list(void)
{
	char names[UMAD_MAX_DEVICES][UMAD_CA_NAME_LEN];
	struct umad_device_node *head = NULL, *node;
	int count = umad_get_cas_names(names, UMAD_MAX_DEVICES);

	errno = 0;
	while (count-- > 0) {
		node = calloc(1, sizeof(*node));
		if (node)
			node->ca_name = strdup(names[count]);
		if (!node || !node->ca_name) {
			free(node);
			umad_free_ca_device_list(head);
			errno = ENOMEM;
			return NULL;
		}
		node->next = head;
		head = node;
	}
	return head;
}

void umad_free_ca_device_list(struct umad_device_node *head)
{
	while (head) {
		struct umad_device_node *next = head->next;

		free((char *)head->ca_name);
		free(head);
		head = next;
	}
}

static int by_name(const void *one, const void *other)
{
	return strcmp(*(const char *const *)one, *(const char *const *)other);
}

int umad_sort_ca_device_list(struct umad_device_node **head, size_t size)
{
	struct umad_device_node *node;
	const char **names;
	size_t count = 0;

	if (!head)
		return EINVAL;
	for (node = *head; node; node = node->next)
		count++;
	if (size && size < count)
		return EINVAL;
	if (!count)
		return 0;
	names = calloc(count, sizeof(*names));
	if (!names)
		return ENOMEM;
	count = 0;
	for (node = *head; node; node = node->next)
		names[count++] = node->ca_name;
	qsort(names, count, sizeof(*names), by_name);
	count = 0;
	for (node = *head; node; node = node->next)
		node->ca_name = names[count++];
	free(names);
	return 0;
}

/* A simulated adapter carries SMPs and GMPs by the same device. */
int umad_get_smi_gsi_pair_by_ca_name(const char *name, uint8_t port, struct umad_ca_pair *pair)
{
	umad_port_t found;
	int failed = umad_get_port(name, port, &found);

	if (failed)
		return failed;
	memset(pair, 0, sizeof(*pair));
	memcpy(pair->smi_name, found.ca_name, sizeof(pair->smi_name));
	memcpy(pair->gsi_name, found.ca_name, sizeof(pair->gsi_name));
	pair->smi_preferred_port = pair->gsi_preferred_port = found.portnum;
	umad_release_port(&found);
	return 0;
}

int umad_get_smi_gsi_pairs(struct umad_ca_pair cas[], size_t max)
{
	char names[UMAD_MAX_DEVICES][UMAD_CA_NAME_LEN];
	int count = umad_get_cas_names(names, UMAD_MAX_DEVICES), found = 0, each;

	for (each = 0; each < count && (size_t)found < max; each++)
		found += !umad_get_smi_gsi_pair_by_ca_name(names[each], 0, &cas[found]);
	return found;
}
