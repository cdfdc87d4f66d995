"""The location of a finding in SARIF: a line of a file, which code-scanning views need, and the port by its name.

If a line of the policy decides, the location is that line. If a file of the host is at fault, the location is that
file. A port is in no file, so its path ``fabric/NODE-GUID/port-N`` is made up. This path is the same in every run, for
a fabric and for a snapshot, and does not depend on the names of nodes or snapshots. Code-scanning views treat a finding
at another path as another finding.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from ibkeys.audit.findings import Subject
from ibkeys.audit.formats import words

FABRIC: Final = "fabric"
"""The path below which ports are; also the path of findings about no single port."""
HOST: Final = "host"
"""The path below which files of the host are shown that are outside the directory that paths are relative to."""


def location_of(subject: Subject | None, root: str) -> dict[str, Any]:
    """Return the location of a finding (SARIF 2.1.0, 3.28). *subject* None: the finding is about the whole fabric.

    *root*: the absolute directory that paths of files are relative to, as a rule the checkout that the policy is in; ""
    if none is known.
    """
    if subject is None:
        return _in_file(FABRIC, 1)
    policy, file = subject.evidence.get("policy", {}), subject.evidence.get("file", {})
    if policy.get("file") and policy.get("line"):
        location = _in_file(_relative(policy["file"], root), policy["line"])
    elif file.get("path"):
        location = _in_file(_relative(file["path"], root), 1)
    else:
        location = _in_file(_path_of(subject.identity), 1)
    return location | logical_location(subject.identity)


def _in_file(path: str, line: int) -> dict[str, Any]:
    uri = quote(path.encode("utf-8", "surrogateescape"))
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": line}}}


def _path_of(identity: Mapping[str, Any]) -> str:
    guid, port = identity.get("node_guid"), identity.get("port")
    if guid is None:
        return FABRIC
    return f"{FABRIC}/{guid}" if port is None else f"{FABRIC}/{guid}/port-{port}"


def _relative(path: str, root: str) -> str:
    """Return *path* relative to *root*, or below `HOST` if it is elsewhere: views accept only relative paths."""
    whole = posixpath.normpath(posixpath.join(root, path))
    below = posixpath.relpath(whole, root) if root else whole
    if below.startswith(("/", "../")):
        return f"{HOST}/{whole.lstrip('/')}"
    return below


def logical_location(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return the logical location of a port (``node_guid/port``) or of a node (``node_guid``), with its names; an empty
    object for other subjects.
    """
    name = words.qualified_name(identity)
    if name is None:
        return {}
    port = identity.get("port")
    logical = {
        "name": "node" if port is None else f"port {port}",
        "fullyQualifiedName": name,
        "kind": "node" if port is None else "port",
    }
    known = {key: identity.get(key) for key in ("node_desc", "node_type", "port_guid", "lid")}
    return {"logicalLocations": [logical], "properties": known}
