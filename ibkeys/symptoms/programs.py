"""Messages of programs that run jobs: NCCL, UCX, MPI libraries, NVSHMEM, Mooncake, GASNet, storage, verbs.

Wording and choice of the P_Key: the sources of each program, and the threads that a row names.
"""

from __future__ import annotations

from typing import Final

from ibkeys.symptoms.causes import (
    ETHERNET,
    HOST_LIMITED,
    HOST_NOT_A_MEMBER,
    INDEX_0,
    INDEX_MOVED,
    NO_SHARED_P_KEY,
    NODE_GONE,
    SWITCH_BLOCKS,
)
from ibkeys.symptoms.row import Cause, Symptom

SUBJECT: Final = "NCCL, UCX, MPI and other programs"

_INDEX_TOO_HIGH: Final = Cause(
    "index-empty",
    "The variable names an index of the P_Key table at which there is no P_Key, or a P_Key where an index is meant.",
    ("host-show --partition {pkey}", "host-show"),
    "the index of each P_Key, and what each program's variable should be",
    "host-show --partition P_KEY -f env prints the right lines for a job script.",
)
_OTHER_THAN_KEYS: Final = (
    "This error has many causes that are no keys: cable, routing, congestion, GPU or a crashed partner. If ibkeys why "
    "HOST HOST says that the two can talk with the P_Key that the program takes, it is none. After a change of "
    "partitions, ibkeys journal shows what it changed, and undo takes it back."
)

ROWS: Final = (
    Symptom(
        name="retry-exceeded",
        title="transport retry counter exceeded (status 12, IBV_WC_RETRY_EXC_ERR)",
        patterns=(
            r"(?:transport )?retry (?:counter|count) (?:was |has been )?exceeded",
            r"IBV_WC_RETRY_EXC_ERR",
            r"RETRY EXCEEDED ERROR",
            r"got completion\b.{0,120}?\b(?:status ?= ?12|with error 12|error:? 12|IBV_WC_RETRY)",
            r"InfiniBand retry count between two MPI processes",
            r"\bFailed status 12\b",
            r"completion with (?:error|status):? ?12\b",
            r"\bstatus ?[=:]? ?12\b.{0,60}vendor err",
            r"\bsyndrom(?:e)? 0x81\b",
            r"\bvendor.?err(?:or)?:? ?(?:0x81|129)\b",
            r"\bWC (?:status|error):? ?(?:code )?12\b",
            r"UD endpoint \S+ to .{1,80}: unhandled timeout error",
        ),
        example="NET/IB : Got completion from peer 10.0.0.7<41022> with status=12 opcode=0 len=0 vendor err 129",
        meaning="Packets of a queue pair were not acknowledged. That is what a P_Key that does not match looks like: "
        "the receiver or a switch drops the packets, without an answer.",
        causes=(INDEX_0, HOST_LIMITED, SWITCH_BLOCKS, NODE_GONE, INDEX_MOVED),
        unknown=_OTHER_THAN_KEYS,
        source="ibv_wc_status; ud_ep.c of UCX; NVIDIA/nccl#1323; sgl-project/sglang#23853",
        words="NCCL Mooncake UCX Open MPI status 12 vendor err 129 retry exceeded",
    ),
    Symptom(
        name="modify-qp-rtr",
        title="a queue pair does not reach RTR: timed out or unreachable",
        patterns=(
            r"(?:Failed to )?modify[_ ]QP(?=[^\n]{0,60}\bRTR\b[^\n]{0,60}(?:timed out|unreachable|\b110\b|\b101\b))",
            r"ibv_modify_qp(?=\b[^\n]{0,40}(?:timed out|unreachable|\b110\b|\b101\b))",
        ),
        example="Failed to modify QP 83 to RTR: Connection timed out",
        meaning="The step to RTR sends nothing on InfiniBand. The driver looks for the address of the partner only on "
        "RoCE, and did not find it. It is no P_Key.",
        causes=(ETHERNET,),
        source="ibv_modify_qp(3); kernel, infiniband/core/verbs.c",
        words="ETIMEDOUT RTR perftest",
    ),
    Symptom(
        name="nccl-modify-qp",
        title="NCCL or verbs: ibv_modify_qp failed",
        patterns=(
            r"ibv_modify_qp\b.{0,80}(?:fail|error|Invalid argument|\b22\b)",
            r"Failed to modify QP(?: \S+)? to (?:INIT|RTR|RTS)",
            r"modify_qp.{0,30}to INIT.{0,30}fail",
        ),
        example="NET/IB : Call to ibv_modify_qp failed with 22 Invalid argument",
        meaning="A queue pair could not be set up. In the step to INIT that is a P_Key index that is out of the table; "
        "SELinux refuses a P_Key there too.",
        causes=(_INDEX_TOO_HIGH, INDEX_0),
        unknown="In the steps to RTR and RTS the reason is an address or GID, not a P_Key.",
        source="ibv_modify_qp(3); NVIDIA/nccl#1323",
        words="EINVAL NCCL_IB_PKEY",
    ),
    Symptom(
        name="nccl-p-key",
        title="NCCL_IB_PKEY: an index, not a P_Key",
        patterns=(r"NCCL_IB_PKEY\b",),
        example="NCCL_IB_PKEY set by environment to 1.",
        meaning="NCCL uses the P_Key at this index of each port's table; without the variable index 0.",
        causes=(_INDEX_TOO_HIGH, INDEX_0),
        source="NCCL's documentation; NVIDIA/nccl#1323",
        rank=1,
    ),
    Symptom(
        name="ucx-no-p-key",
        title="UCX: unable to find specified pkey",
        patterns=(
            r"(?:unable|failed) to find (?:the )?(?:specified |requested |given )?p_?key",
            r"failed to find .{0,40}\bp_?key",
            r"there is no valid p_?key to use",
            r"\bUCX_IB_PKEY\b",
            r"no (?:such )?p_?key\b",
            r"UCX.{0,80}\bp_?key \S+ (?:was |is )?not found",
        ),
        example="ib_iface.c:857 UCX ERROR unable to find specified pkey 0x10 on mlx5_0:1/IB",
        meaning="No entry of the port's P_Key table is in the partition that UCX_IB_PKEY names. UCX takes a limited "
        "P_Key too, if there is no full one; versions before 2020 do not.",
        causes=(HOST_NOT_A_MEMBER, HOST_LIMITED),
        source="ib_iface.c of UCX; openucx/ucx#5141, #7724",
    ),
    Symptom(
        name="ucx-unreachable",
        title="UCX: endpoint or destination unreachable",
        patterns=(
            r"UCX\s+ERROR.{0,100}(?:Destination is unreachable|no (?:remote|active messages) transport)",
            r"ucp_ep_create\(.{1,40} failed: Destination is unreachable",
            r"Endpoint timeout\b",
            r"UCS_ERR_ENDPOINT_TIMEOUT",
        ),
        example="select.c:634 UCX ERROR no active messages transport to <no debug data>: Destination is unreachable",
        meaning="UCX found no transport on which both sides can talk. With P_Keys: both are limited members of the "
        "partition that they take, which UCX compares before it sends.",
        causes=(HOST_LIMITED, NO_SHARED_P_KEY),
        unknown=_OTHER_THAN_KEYS,
        source="ib_iface.c of UCX; openucx/ucx#5141, #8448",
        rank=1,
    ),
    Symptom(
        name="nccl-watchdog",
        title="PyTorch: Watchdog caught collective operation timeout",
        patterns=(r"Watchdog caught collective operation timeout",),
        example="[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE)",
        meaning="A collective operation did not end in time. It says nothing of the reason: look in the output of all "
        "ranks, with NCCL_DEBUG=WARN, for a line with NET/IB.",
        causes=(INDEX_0, HOST_LIMITED, SWITCH_BLOCKS),
        unknown=_OTHER_THAN_KEYS,
        source="ProcessGroupNCCL.cpp of PyTorch",
        rank=2,
        words="hang NCCL timeout ALLREDUCE",
    ),
    Symptom(
        name="daos-unreachable",
        title="DAOS: DER_UNREACH, unreachable node",
        patterns=(r"\bDER_UNREACH\b", r"\bNA_HOSTUNREACH\b"),
        example="crt_hg_req_send_cb() request failed: DER_UNREACH(-1006): 'Unreachable node'",
        meaning="The transport below DAOS (UCX, or verbs with rdma_cm) could not send to that rank, or got no answer.",
        causes=(NODE_GONE, NO_SHARED_P_KEY, HOST_LIMITED),
        unknown="Which host the rank is on: dmg system query shows it. An engine that crashed looks the same.",
        source="crt_hg.c of DAOS; na_ucx.c of Mercury",
        rank=1,
        words="DAOS mercury",
    ),
    Symptom(
        name="mvapich-p-key",
        title="MVAPICH2, MPICH: Can't find PKEY INDEX according to given PKEY",
        patterns=(r"find (?:the )?P_?KEY INDEX\b", r"\bMV2_DEFAULT_PKEY\b"),
        example="Can't find PKEY INDEX according to given PKEY",
        meaning="MV2_DEFAULT_PKEY names a P_Key that is not in the table of this port.",
        causes=(HOST_NOT_A_MEMBER, INDEX_0),
        source="ibv_param.c, rdma_iba_priv.c of MVAPICH2",
    ),
    Symptom(
        name="openmpi-p-key",
        title="Open MPI: no port with the P_Key",
        patterns=(
            r"btl_openib_(?:ib_)?pkey(?:_val)?\b",
            r"openib BTL.{0,120}\bp_?key",
            r"No OpenFabrics (?:connection|devices).{0,100}p_?key",
        ),
        example="mca_btl_openib_component: btl_openib_pkey 0x10: no port has this P_Key",
        meaning="Open MPI to 4 uses the P_Key in btl_openib_pkey; 0 means index 0. Open MPI 5 has UCX's variable.",
        causes=(HOST_NOT_A_MEMBER, INDEX_0),
        source="btl_openib_component.c of Open MPI",
    ),
    Symptom(
        name="openmpi-cpc",
        title="Open MPI: No OpenFabrics connection schemes",
        patterns=(r"No OpenFabrics connection schemes reported",),
        example="No OpenFabrics connection schemes reported that they were able to be used on a specific port.",
        meaning="Open MPI's openib can use neither rdmacm, which takes an IP address on the port and the P_Key of that "
        "IPoIB interface, nor udcm. It is no P_Key in itself.",
        causes=(
            Cause(
                "no-ipoib-address",
                "The port has no IPoIB interface that runs, so rdmacm has no address there.",
                ("host-show",),
                "the IPoIB interfaces of the port, and the P_Key of each",
                "Let Open MPI use UCX, or bring the interface up.",
            ),
            ETHERNET,
        ),
        source="btl_openib_connect_base.c of Open MPI",
        words="rdmacm udcm openib BTL",
    ),
    Symptom(
        name="nvshmem",
        title="NVSHMEM hangs, or refuses its P_Key index",
        patterns=(
            r"NVSHMEM_IB_PKEY_INDEX",
            r"\bnvshmem\w*\b.{0,80}(?:hang|hung|stuck|timed? ?out)",
            r"\b(?:hang|hung|stuck)s?\b.{0,80}\bnvshmem",
        ),
        example="Invalid NVSHMEM_IB_PKEY_INDEX 5 for IBRC QP",
        meaning="NVSHMEM uses the P_Key at index 0; versions from 3.7.0 the index in NVSHMEM_IB_PKEY_INDEX. Where the "
        "job's partition is at another index, it hangs without an error.",
        causes=(INDEX_0, _INDEX_TOO_HIGH),
        source="NVSHMEM's documentation; NVIDIA/nvshmem#82",
    ),
    Symptom(
        name="mooncake",
        title="Mooncake: Context is not active, or its P_Key index",
        patterns=(
            r"\bMC_PKEY_INDEX\b",
            r"Context (?:is )?not active",
            r"mooncake.{0,80}\bp_?key",
        ),
        example="rdma_context.cpp:210] Context is not active",
        meaning="Mooncake (of SGLang and vLLM) uses the P_Key at the index in MC_PKEY_INDEX, by default 0; versions up "
        "to 0.3.10.post2 always 0.",
        causes=(INDEX_0, _INDEX_TOO_HIGH),
        source="kvcache-ai/Mooncake#1985; sgl-project/sglang#23853",
        words="SGLang vLLM disaggregation",
    ),
    Symptom(
        name="gasnet",
        title="GASNet: GASNET_IBV_PKEY",
        patterns=(r"GASNET_IBV_PKEY\b", r"gasnet.{0,80}\bp_?key\b"),
        example="GASNET_IBV_PKEY 0x8010 not found on any port",
        meaning="GASNet uses the first entry of this partition; full or limited does not matter to it.",
        causes=(HOST_NOT_A_MEMBER, INDEX_0),
        source="gasnet_core.c of GASNet, commit aba9933e",
    ),
    Symptom(
        name="p-key-change",
        title="a program was told that the P_Key table changed",
        patterns=(r"IBV_EVENT_PKEY_CHANGE", r"\bP_?Key(?: table)?[ _]changed?\b", r"pkey change event"),
        example="mlx5_0: async event IBV_EVENT_PKEY_CHANGE on port 1",
        meaning="The subnet manager wrote this port's P_Key table. Queue pairs keep their index: if the P_Key there "
        "changed, they now send with another one.",
        causes=(INDEX_MOVED,),
        source="ibv_get_async_event(3); ibv_event_type_str of rdma-core",
    ),
    Symptom(
        name="perftest-p-key",
        title="perftest, qperf: pkey_index",
        patterns=(r"\bpkey_index\b", r"--pkey[_-]index"),
        example="ib_write_bw: Couldn't use pkey_index 3",
        meaning="The program takes the P_Key at this index of the port's table.",
        causes=(_INDEX_TOO_HIGH, INDEX_0),
        source="perftest, option --pkey_index",
        rank=1,
        words="ib_write_bw ib_send_lat",
    ),
)
