"""Messages of Kubernetes and its operators, of UFM, and of other managers.

ibkeys names the cause; commands of these programs decide whether it is the right one.

Wording: the threads and sources that each row names; UFM's events by their names in NVIDIA's manuals.
"""

from __future__ import annotations

from typing import Final

from ibkeys.symptoms.causes import BOTH_LIMITED, ETHERNET, M_KEY_WRONG_SET, NO_SHARED_P_KEY, SWITCH_BLOCKS
from ibkeys.symptoms.row import Cause, Symptom

KUBERNETES: Final = "Kubernetes and virtual functions"
UFM: Final = "UFM"
NOT_OURS: Final = "Not InfiniBand keys"

_NO_GUID: Final = Cause(
    "vf-guid-zero",
    "The virtual function has no GUID (all zeros or all ones): it was never given one, or its driver was not bound "
    "again after it.",
    ("host-show",),
    "virtual functions and their GUIDs, on the node",
    "ip link set PF vf N node_guid ... port_guid ..., then bind the driver anew; or let ib-kubernetes give GUIDs.",
)
_NO_VIRTUALIZATION: Final = Cause(
    "sm-without-virtualization",
    "The subnet manager does not support virtual ports: OpenSM 3.3 does not, NVIDIA's and UFM do (virt_enabled 2).",
    ("sm-show", "audit --check HY005"),
    "which subnet manager is master; ports whose virtual ports cannot be read",
    "Use a subnet manager with virtualization.",
)
_POD_GUID: Final = Cause(
    "pod-guid-not-in-partition",
    "The GUID of the pod was not added to the partition, so its port has no P_Key of it.",
    ("pkey-show --all --partition {pkey}", "matrix"),
    "the members that have the P_Key",
    "See the log of ib-kubernetes, and the partition in UFM.",
)
_UFM_API: Final = Cause(
    "ufm-refused",
    "UFM refused the request: a wrong token or user, an unknown P_Key, or a GUID in another form.",
    (),
    "",
    "ibkeys partition-show --policy ufm:URL shows what UFM has.",
)

OF_KUBERNETES: Final = (
    Symptom(
        name="vf-guid-not-valid",
        title="ib-sriov-cni: VF GUID is not valid",
        patterns=(
            r"\bVF \S+ GUID is not valid",
            r"failed to configure VF.{0,60}GUID",
            r"\b(?:VF|virtual function)\b.{0,40}\bGUIDs?\b.{0,40}(?:invalid|not valid|not set|zero|00:00:00:00)",
            r"invalid (?:VF|port|node)? ?guid\b.{0,40}(?:00:00|pod|vf)",
            r"failed to set (?:node |port )?guid\b",
        ),
        example='infiniBand SRI-OV CNI failed to configure VF "VF ib2 GUID is not valid"',
        meaning="The CNI plugin found a virtual function without a valid GUID, and stops the pod.",
        causes=(_NO_GUID, _NO_VIRTUALIZATION),
        source="k8snetworkplumbingwg/sriov-network-operator#307; Mellanox/network-operator#1825",
        words="VF GUID pod ib-sriov-cni",
    ),
    Symptom(
        name="vf-down",
        title="a virtual function stays Down",
        patterns=(
            r"\b(?:VFs?|virtual functions?)\b.{0,60}(?:stays?|state|is|are|port)\b.{0,20}\bDOWN\b",
            r"\bVF\b.{0,40}link.?state.{0,20}(?:down|disable)",
        ),
        example="VF ib0v2: state Down, physical state LinkUp",
        meaning="A virtual function becomes Active only when the subnet manager knows its virtual port, and its policy "
        "is Up or Follow.",
        causes=(_NO_VIRTUALIZATION, _NO_GUID),
        source="k8snetworkplumbingwg/sriov-network-operator#382",
        words="VF Down OpenSM virtualization",
    ),
    Symptom(
        name="ib-kubernetes-p-key",
        title="ib-kubernetes: GUIDs could not be added to a P_Key",
        patterns=(
            r"failed to (?:add|remove) guids?\b.{0,200}(?:p_?key|partition)",
            r"(?:add|remove)GuidsTo\w*PKey",
            r"failed to (?:create|update|delete) .{0,20}p_?key\b",
            r"ib-kubernetes.{0,120}p_?key",
            r"failed to parse p_?key",
        ),
        example="failed to add guids [02:00:00:00:00:00:00:01] to PKey 0x0010 with error: 401 Unauthorized",
        meaning="ib-kubernetes asked its subnet manager plugin (UFM) to put a pod's GUID into a partition, and failed. "
        "The pod runs without the P_Key or does not start.",
        causes=(_UFM_API, _POD_GUID),
        source="Mellanox/ib-kubernetes, plugin ufm",
        words="UFM plugin noop pod",
    ),
    Symptom(
        name="ib-kubernetes-guid",
        title="ib-kubernetes: no GUID for a pod",
        patterns=(
            r"failed to allocate GUID",
            r"guid pool (?:is )?(?:full|exhausted)",
            r"no (?:free|available) GUIDs?",
            r"GUID .{0,40}already (?:allocated|in use)",
        ),
        example="failed to allocate GUID for pod ID 1a2b, with error: guid pool is full",
        meaning="The range of GUIDs of ib-kubernetes is used up, or a pod asks for a GUID that another has.",
        causes=(
            Cause(
                "guid-pool",
                "GUID_POOL_RANGE_START and _END of ib-kubernetes are too near, or GUIDs of deleted pods are not freed.",
                (),
                "",
                "Make the range larger; look for pods that hang in Terminating.",
            ),
            Cause(
                "guid-twice",
                "Another port of the fabric has this GUID already.",
                ("audit --check HY002",),
                "a duplicate GUID",
            ),
        ),
        source="Mellanox/ib-kubernetes",
    ),
    Symptom(
        name="sriov-cni",
        title="SR-IOV operator or CNI with InfiniBand: the pod does not start",
        patterns=(
            r"infiniBand SRI-?O-?V.? CNI failed",
            r"ib-sriov(?:-cni)?\b.{0,120}(?:fail|error)",
            r"InfiniBand SR-?IOV.{0,60}fail",
        ),
        example='error adding container to network "ib-sriov-net": infiniBand SRI-OV CNI failed to load netconf',
        meaning="The CNI plugin could not set up the virtual function.",
        causes=(_NO_GUID, _POD_GUID),
        source="k8snetworkplumbingwg/ib-sriov-cni",
        rank=1,
    ),
    Symptom(
        name="sriov-cni-vlan",
        title="sriov-cni: failed to set VLAN of a VF",
        patterns=(r"failed to set vf \d+ vlan\b",),
        example='SRIOV-CNI failed to configure VF "failed to set vf 2 vlan: operation not supported"',
        meaning="The CNI plugin for Ethernet set up an InfiniBand function. InfiniBand has no VLANs: partitions "
        "separate there.",
        causes=(
            Cause(
                "cni-for-ethernet",
                "The network is of kind SriovNetwork, or its CNI is sriov; an InfiniBand function takes another one.",
                (),
                "",
                "SriovIBNetwork and the CNI ib-sriov, whose pkey names the partition.",
            ),
        ),
        source="k8snetworkplumbingwg/sriov-cni#208",
        words="VLAN pod SriovIBNetwork",
    ),
)
OF_UFM: Final = (
    Symptom(
        name="ufm-bad-m-key",
        title="UFM event: Bad M_Key",
        patterns=(r"\bevent.{0,40}\bM_?Key\b", r"UFM.{0,80}Bad M_?Key"),
        example="UFM event 256 Bad M_Key, Major, LID 4",
        meaning="A port refused a wrong M_Key (trap 256). UFM reports what its subnet manager was told.",
        causes=(M_KEY_WRONG_SET,),
        source="NVIDIA UFM user manual, list of events",
        words="event 256",
    ),
    Symptom(
        name="ufm-bad-p-key",
        title="UFM event: Bad P_Key, also at a switch external port",
        patterns=(r"\bevent.{0,40}\bBad P_?Key\b", r"UFM.{0,80}Bad P_?Key"),
        example="UFM event 259 Bad P_Key Switch External Port, Minor, LID 7",
        meaning="A port, or a switch for it, received a packet of a partition that it is not in (traps 257 and 259).",
        causes=(NO_SHARED_P_KEY, SWITCH_BLOCKS),
        source="NVIDIA UFM user manual, list of events",
        words="event 257 259",
    ),
    Symptom(
        name="ufm-bad-q-key",
        title="UFM event: Bad Q_Key",
        patterns=(r"\bevent.{0,40}\bBad Q_?Key\b", r"UFM.{0,80}Bad Q_?Key"),
        example="UFM event 258 Bad Q_Key, Minor, LID 3",
        meaning="A datagram with a wrong Q_Key arrived (trap 258).",
        causes=(
            Cause(
                "q-key-differs",
                "Two programs use different Q_Keys, or an old address of a restarted program is used.",
                ("port-show {lid} --counters", "port-show --all --counters --nonzero"),
                "QKeyViolations above 0 at the receiver",
            ),
        ),
        source="NVIDIA UFM user manual, list of events",
        words="event 258",
    ),
    Symptom(
        name="ufm-rest",
        title="UFM's REST interface refused a partition",
        patterns=(
            r"ufmRest\w*/resources/pkeys\b.{0,80}",
            r"\bUFM\b.{0,80}(?:401|403|404|409|Unauthorized)",
            r"(?:p_?key|partition)(?: key)? 0x[0-9a-f]+ .{0,40}(?:not exist|already exist)",
        ),
        example="POST https://ufm/ufmRest/resources/pkeys: 400 PKey 0x0010 does not exist",
        meaning="UFM did not change the partition.",
        causes=(
            _UFM_API,
            Cause(
                "partition-unknown-to-ufm",
                "UFM has no such partition, or has it already under this P_Key.",
                ("pkey-show --all --partition {pkey}", "matrix"),
                "which ports have the P_Key now",
            ),
        ),
        source="NVIDIA UFM REST API, partitions",
        rank=1,
    ),
    Symptom(
        name="limited-pairs",
        title="limited members cannot ping each other",
        patterns=(r"limited (?:members?|cannot|can.t|to limited)\b.{0,60}(?:ping|talk|reach|communicate)",),
        example="two limited members cannot ping each other over ib0.8010",
        meaning="That is what limited membership is for: a limited member talks to full members only.",
        causes=(BOTH_LIMITED,),
        source="IBA 10.9.3",
        rank=1,
    ),
)
NOT_KEYS: Final = (
    Symptom(
        name="nvlink",
        title="NVLink, NVSwitch, NMX: not the keys of an InfiniBand fabric",
        patterns=(r"\bNVLink\b", r"\bNVSwitch\b", r"\bnv-?fabric-?manager\b", r"\bNMX-[CTM]\b"),
        example="NVLink partition 32766: GPU is not a member",
        meaning="Partitions of NVLink are made by the fabric manager of the NVSwitches (NMX, nv-fabricmanager). They "
        "are no P_Keys, and ibkeys neither reads nor changes them.",
        source="NVIDIA's manuals",
        rank=1,
    ),
    Symptom(
        name="sharp",
        title="SHARP: its jobs and trees have keys of their own",
        patterns=(r"\bSHARP\b.{0,60}(?:fail|error|denied|key)", r"\bsharp_am\b", r"\bAM_?Key\b"),
        example="SHARP: failed to create job, error -8",
        meaning="The aggregation manager of SHARP protects its trees with an AM_Key, which ibkeys does not read. A "
        "P_Key matters where the job's partition is not the one that SHARP was told.",
        causes=(
            Cause(
                "job-partition",
                "The hosts of the job are not all in the partition.",
                ("pkey-show --all --partition {pkey}", "matrix"),
                "the members of the partition",
            ),
        ),
        unknown="Everything about AM_Keys.",
        source="NVIDIA's manuals",
        rank=1,
    ),
    Symptom(
        name="roce",
        title="RoCE: an Ethernet port has no partitions",
        patterns=(r"\bRoCE(?:v[12])?\b", r"link_layer:? +Ethernet"),
        example="mlx5_2 port 1: link_layer Ethernet (RoCE)",
        meaning="A port with an Ethernet link has P_Key 0xffff only, and no subnet manager. VLANs separate there.",
        causes=(ETHERNET,),
        source="kernel, infiniband/core",
        rank=2,
    ),
)
