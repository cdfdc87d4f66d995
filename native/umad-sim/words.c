/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * The header of a MAD, and what classes, methods, attributes and statuses are called.
 */
#include "wire.h"

#include <infiniband/umad_str.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>


int wire_debug;

size_t umad_size(void)
{
	return HEADER;
}

void *umad_get_mad(void *umad)
{
	return ((struct ib_user_mad *)umad)->data;
}

int umad_status(void *umad)
{
	return ((struct ib_user_mad *)umad)->status;
}

ib_mad_addr_t *umad_get_mad_addr(void *umad)
{
	return &((struct ib_user_mad *)umad)->addr;
}

int umad_set_grh_net(void *umad, void *mad_addr)
{
	struct ib_mad_addr *to = umad_get_mad_addr(umad), *from = mad_addr;

	to->grh_present = from != NULL;
	if (from) {
		memcpy(to->gid, from->gid, sizeof(to->gid));
		to->flow_label = from->flow_label;
		to->hop_limit = from->hop_limit;
		to->traffic_class = from->traffic_class;
	}
	return 0;
}

int umad_set_grh(void *umad, void *mad_addr)
{
	umad_set_grh_net(umad, mad_addr);
	if (mad_addr)
		umad_get_mad_addr(umad)->flow_label = htonl(((struct ib_mad_addr *)mad_addr)->flow_label);
	return 0;
}

int umad_set_addr_net(void *umad, __be16 dlid, __be32 dqp, int sl, __be32 qkey)
{
	struct ib_mad_addr *to = umad_get_mad_addr(umad);

	to->qpn = dqp;
	to->lid = dlid;
	to->qkey = qkey;
	to->sl = sl;
	return 0;
}

int umad_set_addr(void *umad, int dlid, int dqp, int sl, int qkey)
{
	return umad_set_addr_net(umad, htons(dlid), htonl(dqp), sl, htonl(qkey));
}

int umad_set_pkey(void *umad, int pkey_index)
{
	umad_get_mad_addr(umad)->pkey_index = pkey_index;
	return 0;
}

int umad_get_pkey(void *umad)
{
	return umad_get_mad_addr(umad)->pkey_index;
}

int umad_debug(int level)
{
	if (level >= 0)
		wire_debug = level;
	return wire_debug;
}

void umad_addr_dump(ib_mad_addr_t *addr)
{
	char gid[2 * sizeof(addr->gid) + 1];
	size_t each;

	for (each = 0; each < sizeof(addr->gid); each++)
		sprintf(gid + 2 * each, "%02x", addr->gid[each]);
	fprintf(stderr,
		"ibwarn: [%d] %s: qpn %u qkey 0x%x lid %u sl %u\n"
		"grh_present %u gid_index %u hop_limit %u traffic_class %u flow_label 0x%x pkey_index 0x%x\nGid 0x%s\n",
		getpid(), __func__, ntohl(addr->qpn), ntohl(addr->qkey), ntohs(addr->lid), addr->sl, addr->grh_present,
		addr->gid_index, addr->hop_limit, addr->traffic_class, addr->flow_label, addr->pkey_index, gid);
}

void umad_dump(void *umad)
{
	struct ib_user_mad *mad = umad;

	fprintf(stderr, "ibwarn: [%d] %s: agent id %u status %x timeout %u\n", getpid(), __func__, mad->agent_id,
		mad->status, mad->timeout_ms);
	umad_addr_dump(&mad->addr);
}

struct word {
	uint16_t number;
	const char *text;
};

static const struct word classes[] = {
	{0x01, "Subn"}, {0x81, "Subn"}, {0x03, "SubnAdm"}, {0x04, "Perf"}, {0x05, "BM"}, {0x06, "DevMgt"},
	{0x07, "ComMgt"}, {0x08, "SNMP"}, {0x10, "DevAdm"}, {0x11, "BootMgt"}, {0x12, "BIS"},
	{0x21, "CongestionManagment"}, {0},
};
static const struct word methods[] = {
	{0x01, "Get"}, {0x02, "Set"}, {0x81, "GetResp"}, {0x03, "Send"}, {0x05, "Trap"}, {0x06, "Report"},
	{0x86, "ReportResp"}, {0x07, "TrapRepress"}, {0},
};
static const struct word sa_methods[] = {
	{0x12, "GetTable"}, {0x92, "GetTableResp"}, {0x15, "Delete"}, {0x95, "DeleteResp"}, {0x14, "GetMulti"},
	{0x94, "GetMultiResp"}, {0x13, "GetTraceTable"}, {0},
};
static const struct word statuses[] = {
	{0x04, "Bad Version"}, {0x08, "Method not supported"}, {0x0c, "Method/Attribute combo not supported"},
	{0x1c, "Invalid attribute/modifier field"}, {0},
};
static const struct word sa_statuses[] = {
	{1, "No Resources"}, {2, "Request Invalid"}, {3, "No Records"}, {4, "Too Many Records"}, {5, "Invalid GID"},
	{6, "Insufficient Components"}, {7, "Request Denied"}, {8, "Priority Suggested"}, {0},
};
static const struct word attributes[] = {
	{0x01, "Class Port Info"}, {0x02, "Notice"}, {0x03, "Inform Info"}, {0},
};
static const struct word sm_attributes[] = {
	{0x10, "NodeDescription"}, {0x11, "NodeInfo"}, {0x12, "SwitchInfo"}, {0x14, "GUIDInfo"}, {0x15, "PortInfo"},
	{0x16, "P_KeyTable"}, {0x17, "SLtoVLMappingTable"}, {0x18, "VLArbitrationTable"},
	{0x19, "LinearForwardingTable"}, {0x1a, "RandomForwardingTable"}, {0x1b, "MulticastForwardingTable"},
	{0x1c, "LinkSpeedWidthPairsTable"}, {0x1d, "VendorSpecificMadsTable"}, {0x1e, "HierarchyInfo"},
	{0x20, "SMInfo"}, {0x30, "VendorDiag"}, {0x31, "LedInfo"}, {0x32, "CableInfo"}, {0x33, "PortInfoExtended"}, {0},
};
static const struct word sa_attributes[] = {
	{0x11, "NodeRecord"}, {0x12, "PortInfoRecord"}, {0x13, "SLtoVLMappingTableRecord"}, {0x14, "SwitchInfoRecord"},
	{0x15, "LinearForwardingTableRecord"}, {0x16, "RandomForwardingTableRecord"},
	{0x17, "MulticastForwardingTableRecord"}, {0x18, "SMInfoRecord"},
	{0x19, "LinkSpeedWidthPairsTableRecord"}, {0xf3, "InformInfoRecord"}, {0x20, "LinkRecord"}, {0x30, "GuidInfoRecord"},
	{0x31, "ServiceRecord"}, {0x33, "P_KeyTableRecord"}, {0x35, "PathRecord"}, {0x36, "VLArbitrationTableRecord"},
	{0x38, "MCMemberRecord"}, {0x39, "TraceRecord"}, {0x3a, "MultiPathRecord"},
	{0x3b, "ServiceAssociationRecord"}, {0x3c, "HierarchyInfoRecord"}, {0x3d, "CableInfoRecord"},
	{0x3e, "PortInfoExtendedRecord"}, {0},
};
static const struct word cm_attributes[] = {
	{0x10, "ConnectRequest"}, {0x11, "MsgRcptAck"}, {0x12, "ConnectReject"}, {0x13, "ConnectReply"},
	{0x14, "ReadyToUse"}, {0x15, "DisconnectRequest"}, {0x16, "DisconnectReply"}, {0x17, "ServiceIDResReq"},
	{0x18, "ServiceIDResReqResp"}, {0x19, "LoadAlternatePath"}, {0x1a, "AlternatePathResponse"},
	{0x1b, "SuggestAlternatePath"}, {0x1c, "SuggestPathResponse"}, {0},
};

static const char *name_of(const struct word *words, uint16_t number, const char *otherwise)
{
	for (; words->text; words++)
		if (words->number == number)
			return words->text;
	return otherwise;
}

const char *umad_class_str(uint8_t mgmt_class)
{
	const char *otherwise = "<unknown>";

	if ((mgmt_class >= 0x09 && mgmt_class <= 0x0f) || (mgmt_class >= 0x30 && mgmt_class <= 0x4f))
		otherwise = "Vendor";
	else if (mgmt_class >= 0x10 && mgmt_class <= 0x2f)
		otherwise = "Application";
	return name_of(classes, mgmt_class, otherwise);
}

const char *umad_method_str(uint8_t mgmt_class, uint8_t method)
{
	const char *common = name_of(methods, method, "<unknown");

	return mgmt_class == 0x03 ? name_of(sa_methods, method, common) : common;
}

const char *umad_common_mad_status_str(__be16 status)
{
	uint16_t number = ntohs(status);

	if (number & 0x1)
		return "Busy";
	if (number & 0x2)
		return "Redirection required";
	return name_of(statuses, number & 0x1c, "Success");
}

const char *umad_sa_mad_status_str(__be16 status)
{
	uint8_t number = ntohs(status) >> 8;

	return number ? name_of(sa_statuses, number, "Undefined Error") : "Success";
}

const char *umad_attribute_str(uint8_t mgmt_class, __be16 attr_id)
{
	uint16_t number = ntohs(attr_id);
	const char *common = name_of(attributes, number, "<unknown>");

	switch (mgmt_class) {
	case 0x01:
	case 0x81:
		return name_of(sm_attributes, number, common);
	case 0x03:
		return name_of(sa_attributes, number, common);
	case 0x07:
		return name_of(cm_attributes, number, common);
	default:
		return common;
	}
}
