/* What Python sees of libibumad and of the batch engine. Read by cffi, not by a C compiler: "..." is filled in by the
 * compiler when the extension is built, so a changed header is a build error and never a wrong read. */

#define UMAD_CA_MAX_PORTS ...
#define IBKEYS_RECV_COLUMNS ...
#define IBKEYS_ASKED ...
#define IBKEYS_NAME_LEN ...
#define IBKEYS_MOST_NAMES ...

typedef struct umad_port {
	int portnum;
	unsigned base_lid;
	unsigned lmc;
	unsigned sm_lid;
	unsigned sm_sl;
	unsigned state;
	unsigned phys_state;
	unsigned rate;
	uint32_t capmask;
	uint64_t gid_prefix;
	uint64_t port_guid;
	unsigned pkeys_size;
	uint16_t *pkeys;
	char link_layer[...];
	...;
} umad_port_t;

typedef struct umad_ca {
	unsigned node_type;
	int numports;
	char fw_ver[...];
	char ca_type[...];
	char hw_ver[...];
	uint64_t node_guid;
	uint64_t system_guid;
	umad_port_t *ports[...];
	...;
} umad_ca_t;

const char *ibkeys_load(void);
int ibkeys_simulated_names(char *names);
int ibkeys_gsi_of(const char *smi_name, char *gsi_name);

int umad_get_ca(const char *ca_name, umad_ca_t *ca);
int umad_release_ca(umad_ca_t *ca);
int umad_get_port(const char *ca_name, int portnum, umad_port_t *port);
int umad_release_port(umad_port_t *port);
int umad_open_port(const char *ca_name, int portnum);
int umad_close_port(int fd);
int umad_register(int fd, int mgmt_class, int mgmt_version, uint8_t rmpp_version, long *method_mask);
int umad_unregister(int fd, int agent);

struct ibkeys_asked { ...; };

struct ibkeys_answers {
	struct ibkeys_asked *asked;
	uint32_t *tids;
	uint8_t *data;
	int32_t count;
};

int ibkeys_send_batch(int fd, const int32_t *agents, const uint8_t *records, const uint32_t *tids,
		      const uint16_t *attributes, const uint32_t *modifiers, struct ibkeys_asked *asked, int count,
		      int32_t *errors);
int ibkeys_recv_batch(int fd, uint8_t *mads, int32_t *rows, struct ibkeys_answers *answers, int max, int timeout_ms);
int ibkeys_poll_pair(int fd, int other_fd, int timeout_ms);
