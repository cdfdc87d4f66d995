"""Every option that OpenSM's options file may set: its kind, its default, and when a changed value counts.

name, kind, when, default

Kinds: ``u8`` to ``u64`` and ``i32`` are numbers of so many bits, ``flag`` is TRUE or anything else, ``key`` is a number
of 64 bits that is a secret, ``text`` is text (default ``-``: none), and ``other`` is not parsed here. ``sweep``: a
running OpenSM applies a changed value at its next heavy sweep. ``start``: only a restart applies it.

Source: opensm osm_subnet.c (opt_tbl) as in Debian's opensm 3.3.23, and the output of ``opensm -c``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, cast

from ibkeys.keys.mkey import MKey

OptionKind = Literal["u8", "u16", "u32", "u64", "i32", "flag", "key", "text", "other"]
OptionValue = int | bool | str | MKey | None
"""The value of a number, a flag, a text or a key; None: no text, or a kind that is not parsed."""

BITS: Final[dict[str, int]] = {"u8": 8, "u16": 16, "u32": 32, "u64": 64, "i32": 32, "key": 64}


@dataclass(frozen=True, slots=True)
class Option:
    """An option of OpenSM. ``needs_restart``: whether OpenSM has to be restarted to use a changed value."""

    name: str
    kind: OptionKind
    needs_restart: bool
    default: OptionValue


_QOS: Final = """
%s_max_vls                                        u32   sweep 0
%s_high_limit                                     i32   sweep -1
%s_vlarb_high                                     text  sweep -
%s_vlarb_low                                      text  sweep -
%s_sl2vl                                          text  sweep -
"""
_ROWS: Final = """
guid                                              u64   start 0x0000000000000000
m_key                                             key   sweep 0x0000000000000000
sm_key                                            key   sweep 0x0000000000000001
sa_key                                            key   sweep 0x0000000000000001
subnet_prefix                                     u64   start 0xfe80000000000000
m_key_lease_period                                u16   sweep 0
m_key_protection_level                            u8    sweep 0
m_key_lookup                                      flag  sweep TRUE
sweep_interval                                    u32   sweep 10
max_wire_smps                                     u32   sweep 4
max_wire_smps2                                    u32   sweep 4
max_smps_timeout                                  u32   sweep 600000
console                                           text  start off
console_port                                      u16   start 10000
transaction_timeout                               u32   start 200
transaction_retries                               u32   start 3
long_transaction_timeout                          u32   start 500
max_msg_fifo_timeout                              u32   sweep 10000
sm_priority                                       u8    sweep 0
lmc                                               u8    start 0
lmc_esp0                                          flag  start FALSE
max_op_vls                                        u8    sweep 5
force_link_speed                                  u8    sweep 15
force_link_speed_ext                              u8    sweep 31
force_link_width                                  u8    sweep 255
fdr10                                             u8    sweep 1
reassign_lids                                     flag  sweep FALSE
ignore_other_sm                                   flag  sweep FALSE
single_thread                                     flag  start FALSE
disable_multicast                                 flag  sweep FALSE
subnet_timeout                                    u8    sweep 18
packet_life_time                                  u8    sweep 0x12
vl_stall_count                                    u8    sweep 0x07
leaf_vl_stall_count                               u8    sweep 0x07
head_of_queue_lifetime                            u8    sweep 0x12
leaf_head_of_queue_lifetime                       u8    sweep 0x10
local_phy_errors_threshold                        u8    sweep 0x08
overrun_errors_threshold                          u8    sweep 0x08
use_mfttop                                        flag  sweep TRUE
sminfo_polling_timeout                            u32   sweep 10000
polling_retry_number                              u32   sweep 4
force_heavy_sweep                                 flag  sweep FALSE
port_prof_ignore_file                             text  start -
hop_weights_file                                  text  start -
dimn_ports_file                                   text  start -
port_search_ordering_file                         text  start -
port_profile_switch_nodes                         flag  sweep FALSE
sweep_on_trap                                     flag  sweep TRUE
routing_engine                                    text  start -
avoid_throttled_links                             flag  start FALSE
connect_roots                                     flag  sweep FALSE
use_ucast_cache                                   flag  start FALSE
log_file                                          text  start /var/log/opensm.log
log_max_size                                      u32   sweep 0
log_flags                                         u8    sweep 0x03
force_log_flush                                   flag  sweep FALSE
accum_log_file                                    flag  sweep TRUE
partition_config_file                             text  start /etc/opensm/partitions.conf
no_partition_enforcement                          flag  sweep FALSE
part_enforce                                      text  sweep both
allow_both_pkeys                                  flag  start FALSE
keep_pkey_indexes                                 flag  sweep TRUE
sm_assigned_guid                                  u8    sweep 0x00
qos                                               flag  sweep FALSE
qos_policy_file                                   text  start /etc/opensm/qos-policy.conf
suppress_sl2vl_mad_status_errors                  flag  sweep FALSE
dump_files_dir                                    text  start /var/log/
lid_matrix_dump_file                              text  start -
lfts_file                                         text  start -
root_guid_file                                    text  start -
cn_guid_file                                      text  start -
io_guid_file                                      text  start -
port_shifting                                     flag  sweep FALSE
scatter_ports                                     u32   sweep 0
max_reverse_hops                                  u16   start 0
ids_guid_file                                     text  start -
guid_routing_order_file                           text  start -
guid_routing_order_no_scatter                     flag  start FALSE
sa_db_file                                        text  start -
sa_db_dump                                        flag  sweep FALSE
torus_config                                      text  sweep /etc/opensm/torus-2QoS.conf
do_mesh_analysis                                  flag  sweep FALSE
exit_on_fatal                                     flag  sweep TRUE
honor_guid2lid_file                               flag  sweep FALSE
daemon                                            flag  start FALSE
sm_inactive                                       flag  sweep FALSE
babbling_port_policy                              flag  sweep FALSE
drop_event_subscriptions                          flag  sweep FALSE
ipoib_mcgroup_creation_validation                 flag  sweep TRUE
mcgroup_join_validation                           flag  sweep TRUE
use_original_extended_sa_rates_only               flag  sweep FALSE
use_optimized_slvl                                flag  sweep FALSE
fsync_high_avail_files                            flag  sweep TRUE
perfmgr                                           flag  start FALSE
perfmgr_redir                                     flag  start TRUE
perfmgr_sweep_time_s                              u16   start 180
perfmgr_max_outstanding_queries                   u32   start 500
perfmgr_ignore_cas                                flag  start FALSE
event_db_dump_file                                text  start -
perfmgr_rm_nodes                                  flag  start TRUE
perfmgr_log_errors                                flag  start TRUE
perfmgr_query_cpi                                 flag  start TRUE
perfmgr_xmit_wait_log                             flag  start FALSE
perfmgr_xmit_wait_threshold                       u32   start 65535
event_plugin_name                                 text  start -
event_plugin_options                              text  start -
node_name_map_name                                text  start -
congestion_control                                flag  sweep FALSE
cc_key                                            key   start 0x0000000000000000
cc_max_outstanding_mads                           u32   start 500
cc_sw_cong_setting_control_map                    other sweep -
cc_sw_cong_setting_victim_mask                    other sweep -
cc_sw_cong_setting_credit_mask                    other sweep -
cc_sw_cong_setting_threshold                      u8    sweep 0x00
cc_sw_cong_setting_packet_size                    u8    sweep 0
cc_sw_cong_setting_credit_starvation_threshold    u8    sweep 0x00
cc_sw_cong_setting_credit_starvation_return_delay other sweep -
cc_sw_cong_setting_marking_rate                   u16   sweep 0
cc_ca_cong_setting_port_control                   u16   sweep 0x0000
cc_ca_cong_setting_control_map                    u16   sweep 0x0000
cc_ca_cong_setting_ccti_timer                     other sweep -
cc_ca_cong_setting_ccti_increase                  other sweep -
cc_ca_cong_setting_trigger_threshold              other sweep -
cc_ca_cong_setting_ccti_min                       other sweep -
cc_cct                                            other sweep -
enable_quirks                                     flag  sweep FALSE
no_clients_rereg                                  flag  sweep FALSE
prefix_routes_file                                text  start /etc/opensm/prefix-routes.conf
consolidate_ipv6_snm_req                          flag  sweep FALSE
lash_start_vl                                     u8    sweep 0
sm_sl                                             u8    sweep 0
nue_max_num_vls                                   u8    sweep 1
nue_include_switches                              flag  start FALSE
log_prefix                                        text  sweep -
per_module_logging_file                           text  start /etc/opensm/per-module-logging.conf
quasi_ftree_indexing                              flag  sweep FALSE
"""


def _parse_row(line: str) -> Option:
    name, kind, when, default = line.split()
    value: OptionValue = None if default == "-" else default
    if kind in BITS:
        value = int(default, 0)
    if kind == "key":
        value = MKey(int(default, 0))
    elif kind == "flag":
        value = default == "TRUE"
    return Option(name, cast(OptionKind, kind), when == "start", value)


_QOS_SETS: Final = ("qos", "qos_ca", "qos_sw0", "qos_swe", "qos_rtr")
_LINES: Final = [*_ROWS.split("\n"), *(line for each in _QOS_SETS for line in _QOS.replace("%s", each).split("\n"))]
OPTIONS: Final[dict[str, Option]] = {row.name: row for row in map(_parse_row, filter(None, _LINES))}
"""Option name → option."""
