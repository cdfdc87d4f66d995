"""The options that commands share, each written once. A decorator hands its group to the command as one object.

Commands use them from here: ``options.fabric``, ``options.Where``.
"""

from ibkeys.cli.options.asked import AskedChange as AskedChange
from ibkeys.cli.options.asked import ShownPorts as ShownPorts
from ibkeys.cli.options.asked import change as change
from ibkeys.cli.options.asked import shown_ports as shown_ports
from ibkeys.cli.options.asking_sa import AskSa as AskSa
from ibkeys.cli.options.asking_sa import pkey_idx as pkey_idx
from ibkeys.cli.options.asking_sa import probe_sa as probe_sa
from ibkeys.cli.options.asking_sa import sa as sa
from ibkeys.cli.options.asking_sa import sm_port as sm_port
from ibkeys.cli.options.assumed import inbound_check as inbound_check
from ibkeys.cli.options.changes import Changing as Changing
from ibkeys.cli.options.changes import allow_break as allow_break
from ibkeys.cli.options.changes import allow_removals as allow_removals
from ibkeys.cli.options.changes import changing as changing
from ibkeys.cli.options.changes import confirm_within as confirm_within
from ibkeys.cli.options.changes import override as override
from ibkeys.cli.options.declaring import F as F
from ibkeys.cli.options.declaring import flag as flag
from ibkeys.cli.options.declaring import group as group
from ibkeys.cli.options.declaring import option as option
from ibkeys.cli.options.declaring import replaced as replaced
from ibkeys.cli.options.declaring import shared as shared
from ibkeys.cli.options.general import common as common
from ibkeys.cli.options.managers import SmHosts as SmHosts
from ibkeys.cli.options.managers import ViaOptions as ViaOptions
from ibkeys.cli.options.managers import opensm as opensm
from ibkeys.cli.options.managers import sm_hosts as sm_hosts
from ibkeys.cli.options.managers import via_opensm_only as via_opensm_only
from ibkeys.cli.options.managers import wait_for_sm as wait_for_sm
from ibkeys.cli.options.policies import allow_both_pkeys as allow_both_pkeys
from ibkeys.cli.options.policies import partition_names as partition_names
from ibkeys.cli.options.policies import sm_guid as sm_guid
from ibkeys.cli.options.ports import Kind as Kind
from ibkeys.cli.options.ports import address as address
from ibkeys.cli.options.ports import every_port as every_port
from ibkeys.cli.options.ports import kind as kind
from ibkeys.cli.options.rows import Filters as Filters
from ibkeys.cli.options.rows import Folding as Folding
from ibkeys.cli.options.rows import Listing as Listing
from ibkeys.cli.options.rows import filters as filters
from ibkeys.cli.options.rows import filters_but_partition as filters_but_partition
from ibkeys.cli.options.rows import folding as folding
from ibkeys.cli.options.rows import format as format
from ibkeys.cli.options.rows import format_of as format_of
from ibkeys.cli.options.rows import listing as listing
from ibkeys.cli.options.rows import listing_as_is as listing_as_is
from ibkeys.cli.options.where import Store as Store
from ibkeys.cli.options.where import Where as Where
from ibkeys.cli.options.where import fabric as fabric
from ibkeys.cli.options.where import reading as reading
from ibkeys.cli.options.where import show_keys as show_keys
from ibkeys.cli.options.where import store as store
