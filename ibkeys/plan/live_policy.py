"""The policy that the master had when a plan was made: an apply through OpenSM may overwrite this one."""

from __future__ import annotations

from ibkeys.host.host_files import THIS_HOST
from ibkeys.managers.opensm.on_this_host import own_socket
from ibkeys.managers.report import join, look_at_host
from ibkeys.managers.subnet_managers import managers_of
from ibkeys.plan.model import PolicySource
from ibkeys.topology.model import Topology


def live_policy(found: Topology, own_guid: int) -> PolicySource | None:
    """Return the policy of the one master that a sweep *found*, if its OpenSM runs on this host and the file can be
    read; its digest is "" if there is no file. None: not known. *own_guid*: the GUID of the port from which the sweep
    went out."""
    master = join(managers_of(found), [look_at_host(THIS_HOST, socket=own_socket())], [own_guid]).master_instance()
    if master is None:
        return None
    file, policy = master.files["policy"], master.policy
    if policy is not None:
        return PolicySource(str(file.path), policy.digest, policy.data)
    return PolicySource(str(file.path), "") if file.is_there is False else None
