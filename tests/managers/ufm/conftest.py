"""A UFM that is asked: in clear with one partition of two members, and by TLS."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.managers.ufm.mock import Mock, ufm


@pytest.fixture
def mock() -> Iterator[Mock]:
    with ufm() as served:
        served.store(0x10, g2c903000a1011="full", g2c903000a1021="limited")
        yield served


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate with its key in one file."""
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    key, cert = path.with_name("key.pem"), path.with_name("cert.pem")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=ufm"]
    more = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert]
    subprocess.run([*words, *more], check=True, capture_output=True)
    path.touch(mode=0o600)
    path.write_bytes(key.read_bytes() + cert.read_bytes())
    return path


@pytest.fixture
def secured(certificate: Path) -> Iterator[Mock]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.load_verify_locations(certificate)
    context.verify_mode = ssl.CERT_OPTIONAL
    with ufm(tls=context) as served:
        served.store(0x10, g2c903000a1011="full")
        yield served
