"""The options of the OpenSM of a rehearsal, made from those of the site's OpenSM by a table of all options.

``opensm ARGUMENTS -c FILE`` writes every option as an OpenSM with these arguments would use it. A row of the table says
what becomes of an option. ``kept``: it only decides what OpenSM computes and sends. ``read``: it names a file that
OpenSM reads, which is copied. ``written``: it names a file or folder that OpenSM writes, which gets another place.
``key``: a made-up key replaces the key; 0 stays 0, OpenSM's default stays, and equal keys stay equal. ``chosen``: the
rehearsal has a value of its own: a plugin may be any library, the console and the daemon are of no use there, OpenSM
has to log what it does, and it has to be the master. An option without a row is refused, because it is not known what
it would do.

Source: opensm osm_subnet.c (opt_tbl) and the code that uses each option, as in Debian's opensm 3.3.23.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from ibkeys.errors import UsageError
from ibkeys.keys.mkey import MKey
from ibkeys.managers.opensm.option_table import OPTIONS
from ibkeys.managers.opensm.options_file import assignments, read_options
from ibkeys.printable import named

Treatment = Literal["kept", "read", "written", "key", "chosen"]
_ROWS: Final = """
kept subnet_prefix m_key_lease_period m_key_protection_level m_key_lookup sweep_interval max_wire_smps max_wire_smps2
kept max_smps_timeout transaction_timeout transaction_retries long_transaction_timeout max_msg_fifo_timeout
kept lmc lmc_esp0 max_op_vls force_link_speed force_link_speed_ext force_link_width fdr10 reassign_lids ignore_other_sm
kept single_thread disable_multicast subnet_timeout packet_life_time vl_stall_count leaf_vl_stall_count
kept head_of_queue_lifetime leaf_head_of_queue_lifetime local_phy_errors_threshold overrun_errors_threshold use_mfttop
kept sminfo_polling_timeout polling_retry_number force_heavy_sweep port_profile_switch_nodes sweep_on_trap
kept routing_engine avoid_throttled_links connect_roots use_ucast_cache no_partition_enforcement part_enforce
kept allow_both_pkeys keep_pkey_indexes sm_assigned_guid qos suppress_sl2vl_mad_status_errors port_shifting
kept scatter_ports max_reverse_hops guid_routing_order_no_scatter do_mesh_analysis exit_on_fatal honor_guid2lid_file
kept sm_inactive babbling_port_policy drop_event_subscriptions ipoib_mcgroup_creation_validation
kept mcgroup_join_validation use_original_extended_sa_rates_only use_optimized_slvl fsync_high_avail_files
kept perfmgr_redir perfmgr_sweep_time_s perfmgr_max_outstanding_queries perfmgr_ignore_cas perfmgr_rm_nodes
kept perfmgr_log_errors perfmgr_query_cpi perfmgr_xmit_wait_log perfmgr_xmit_wait_threshold congestion_control
kept cc_max_outstanding_mads cc_sw_cong_setting_control_map cc_sw_cong_setting_victim_mask
kept cc_sw_cong_setting_credit_mask cc_sw_cong_setting_threshold cc_sw_cong_setting_packet_size
kept cc_sw_cong_setting_credit_starvation_threshold cc_sw_cong_setting_credit_starvation_return_delay
kept cc_sw_cong_setting_marking_rate cc_ca_cong_setting_port_control cc_ca_cong_setting_control_map
kept cc_ca_cong_setting_ccti_timer cc_ca_cong_setting_ccti_increase cc_ca_cong_setting_trigger_threshold
kept cc_ca_cong_setting_ccti_min cc_cct enable_quirks no_clients_rereg consolidate_ipv6_snm_req lash_start_vl sm_sl
kept nue_max_num_vls nue_include_switches quasi_ftree_indexing
kept qos_max_vls qos_high_limit qos_vlarb_high qos_vlarb_low qos_sl2vl
kept qos_ca_max_vls qos_ca_high_limit qos_ca_vlarb_high qos_ca_vlarb_low qos_ca_sl2vl
kept qos_sw0_max_vls qos_sw0_high_limit qos_sw0_vlarb_high qos_sw0_vlarb_low qos_sw0_sl2vl
kept qos_swe_max_vls qos_swe_high_limit qos_swe_vlarb_high qos_swe_vlarb_low qos_swe_sl2vl
kept qos_rtr_max_vls qos_rtr_high_limit qos_rtr_vlarb_high qos_rtr_vlarb_low qos_rtr_sl2vl
read partition_config_file qos_policy_file port_prof_ignore_file hop_weights_file dimn_ports_file
read port_search_ordering_file lid_matrix_dump_file lfts_file root_guid_file cn_guid_file io_guid_file ids_guid_file
read guid_routing_order_file sa_db_file torus_config prefix_routes_file node_name_map_name
written log_file dump_files_dir event_db_dump_file
key m_key sm_key sa_key cc_key
chosen guid sm_priority console console_port daemon perfmgr event_plugin_name event_plugin_options sa_db_dump
chosen log_flags log_max_size log_prefix force_log_flush accum_log_file per_module_logging_file
"""
TREATMENTS: Final[Mapping[str, Treatment]] = {
    name: treatment  # type: ignore[misc]
    for treatment, *names in map(str.split, _ROWS.strip().splitlines())
    for name in names
}
"""Option name → what becomes of the option in a rehearsal."""
_CHOSEN: Final[Mapping[str, str]] = {
    "sm_priority": "15",  # a stand-in of a standby never gets the mastership
    "console": "off",
    "console_port": "10000",
    "daemon": "FALSE",
    "perfmgr": "FALSE",
    "event_plugin_name": "(null)",
    "event_plugin_options": "(null)",
    "sa_db_dump": "FALSE",
    "log_flags": "0x03",
    "log_max_size": "0",
    "log_prefix": "(null)",
    "force_log_flush": "TRUE",
    "accum_log_file": "TRUE",
    "per_module_logging_file": "(null)",
}
"""Option name → the value of each chosen option but ``guid``. A rehearsal reads OpenSM's log while OpenSM runs."""
LOG: Final = "opensm.log"
POLICY: Final = "partition_config_file"
"""The option that names the policy, and the name of its copy."""
_WRITTEN: Final[Mapping[str, str]] = {"log_file": LOG, "dump_files_dir": ".", "event_db_dump_file": "events"}


@dataclass(frozen=True, slots=True)
class RehearsalOptions:
    """The options of the OpenSM of a rehearsal. ``text``: its options file. ``copies``: option name → path of a file to
    copy, as the site's OpenSM names it; the copy has the name of the option."""

    text: bytes
    copies: Mapping[str, str]


def rehearsal_options(
    written: bytes, folder: Path, port_guid: int, made_up_key: Callable[[MKey], MKey]
) -> RehearsalOptions:
    """Return the options for a rehearsal of the options *written*, which are the output of ``opensm -c``.

    *folder*: the folder of all files that OpenSM reads and writes there; its path has neither blanks nor ``#``.
    *port_guid*: the port on which OpenSM runs. *made_up_key*: returns the key that replaces a key other than 0 and the
    default. Raises UsageError that names each option without a row in the table.
    """
    options = read_options(written)
    unknown = options.unknown
    if unknown:
        raise UsageError(
            f"the options of this OpenSM have {named(unknown)}, which OpenSM 3.3.23 does not have, so it is not known "
            "what it would read or write: rehearse with another OpenSM, `ibkeys rehearse --opensm COMMAND`"
        )
    kept = []
    for line in assignments(written):
        if TREATMENTS[line.name.decode()] == "kept":
            kept.append(line.name + b" " + line.text)
    own = {"guid": f"0x{port_guid:016x}", **_CHOSEN}
    own |= {name: str(folder / file) for name, file in _WRITTEN.items()}
    copies = {}
    for name in _names("read"):
        path = options.value(name) or OPTIONS[name].default  # without a policy OpenSM reads the default one
        own[name] = str(folder / name) if path else "(null)"
        if isinstance(path, str) and path:
            copies[name] = path
    for name in _names("key"):
        key = options.value(name)
        assert isinstance(key, MKey)
        stays = key.is_zero or key == OPTIONS[name].default
        own[name] = f"0x{(key if stays else made_up_key(key)).reveal():016x}"
    lines = [*kept, *(f"{name} {value}".encode() for name, value in own.items())]
    return RehearsalOptions(b"\n".join(lines) + b"\n", copies)


def _names(treatment: Treatment) -> list[str]:
    return [name for name, row in TREATMENTS.items() if row == treatment]
