"""The M_Key through OpenSMs of another host: a real sshd on loopback leads there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.keyed_standbys import CLOSED, KeyedSite, keyed_site, mode, through_ssh


@pytest.fixture
def there(tmp_path: Path) -> Iterator[KeyedSite]:
    with ExitStack() as stack:
        _, words = through_ssh(stack, tmp_path)
        yield stack.enter_context(keyed_site(2, words))


def test_keys_come_change_and_go_on_another_host(there: KeyedSite) -> None:
    [standby] = there.standbys
    code, said = there.ibkeys("mkey-deploy", *CLOSED)
    assert code == 0, said
    assert "type on smhost" in said
    first = there.key()
    assert first[1:] == (2, 60)
    code, said = there.ibkeys("mkey-rotate")
    assert code == 0, said
    assert there.key()[1:] == (2, 60)
    assert there.key()[0] != first[0]
    for each in there.opensms:
        assert [mode(each.cache), mode(each.conf)] == [0o700, 0o600]
    assert [mode(standby.cache / name) for name in ("guid2mkey", "neighbors")] == [0o600, 0o600]
    before = there.key()
    there.kill_master()
    assert there.key() == before
    code, said = there.ibkeys("mkey-remove", "--leave-open")
    assert code == 0, said
    assert there.key() == (0, 0, 0)
    assert there.violations() == 0
