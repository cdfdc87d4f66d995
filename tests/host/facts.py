"""A host made of files."""

from __future__ import annotations

from pathlib import Path

from ibkeys.managers.host_facts import HostFacts, host_facts

KEY = 0xFEEDC0DEDEADBEA7


def made(path: Path, text: str = "", mode: int = 0o600) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode)
    path.write_text(text)
    path.chmod(mode)
    return path


def facts(tmp_path: Path, **more: object) -> HostFacts:
    paths = {
        "opensm_configs": [tmp_path / "etc" / "opensm.conf"],
        "opensm_cache": tmp_path / "cache",
        "ibdiag_config": tmp_path / "etc" / "ibdiag.conf",
        "devices": tmp_path / "dev",
        "proc": tmp_path / "proc",
        "run": lambda command: None,
    }
    return host_facts(**{**paths, **more})  # type: ignore[arg-type]
