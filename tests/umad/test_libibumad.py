"""The binding's own behaviour, above all where libibumad or the kernel says no. Its good paths: tests/integration."""

from __future__ import annotations

import errno
import gc
import os
import struct
import sys
from collections.abc import Callable
from typing import Any

import pytest
from pytest_mock import MockerFixture

from ibkeys import errors
from ibkeys.client.request import Request
from ibkeys.client.scheduler import Scheduler
from ibkeys.errors import LibraryMissing
from ibkeys.umad import devices, libibumad
from ibkeys.umad.libibumad import LibibumadPort, open_port
from ibkeys.umad.port import ETIMEDOUT, Outgoing, SendFailure
from tests.umad.conftest import PORT, make_ca, make_port

SMP = bytes([1, 0x81, 1, 1]) + bytes(252)
Fails = Callable[..., Callable[..., int]]


@pytest.fixture
def port(lib: Any) -> LibibumadPort:
    return LibibumadPort("mlx5_0", 1)


# Opening and closing


def test_open_registers_both_smp_classes(lib: Any, port: LibibumadPort) -> None:
    lib.umad_open_port.assert_called_once_with(b"mlx5_0", 1)
    assert [call.args[:4] for call in lib.umad_register.call_args_list] == [(5, 0x01, 1, 0), (5, 0x81, 1, 0)]


@pytest.mark.parametrize(
    ("result", "reason", "error", "advice"),
    [
        (-errno.EIO, errno.EACCES, errors.AccessDenied, "run as root"),
        (-errno.EIO, errno.EPERM, errors.AccessDenied, "run as root"),
        (-errno.EOPNOTSUPP, 0, errors.ModuleMissing, "modprobe ib_umad"),
        (-errno.ENODEV, 0, errors.NoDevice, "/dev/infiniband"),
        (-errno.EINVAL, 0, errors.NoDevice, "/dev/infiniband"),
        (-errno.EIO, errno.ENXIO, errors.NoDevice, "/dev/infiniband"),
        (-errno.EIO, errno.EMFILE, errors.TransportError, "Too many open files"),
    ],
)
def test_open_that_fails_says_why(
    lib: Any, fails: Fails, result: int, reason: int, error: type[errors.TransportError], advice: str
) -> None:
    lib.umad_open_port.side_effect = fails(result, reason)
    with pytest.raises(error, match=advice) as caught:
        LibibumadPort("mlx5_0", 1)
    assert caught.type is error
    assert caught.value.errno == (reason or -result)
    assert str(caught.value).startswith("mlx5_0 port 1: ")
    assert "\n" not in str(caught.value)
    lib.umad_close_port.assert_not_called()


def test_refused_agent_closes_the_descriptor(lib: Any, fails: Fails) -> None:
    lib.umad_register.side_effect = fails(-errno.EPERM, errno.EINVAL)
    with pytest.raises(errors.AgentRefused, match=r"class 0x01 \(Invalid argument\)") as caught:
        LibibumadPort("mlx5_0", 1)
    assert caught.value.errno == errno.EINVAL
    lib.umad_close_port.assert_called_once_with(5)


def test_port_without_qp0_may_not_send_smps(lib: Any, fails: Fails) -> None:
    lib.umad_register.side_effect = fails(-errno.EPERM, errno.EPROTONOSUPPORT)
    with pytest.raises(errors.SmpsNotAllowed, match="no QP0"):
        LibibumadPort("mlx5_0", 1)


def test_device_gone_while_registering(port: LibibumadPort, lib: Any, fails: Fails) -> None:
    lib.umad_register.side_effect = fails(-errno.EPERM, errno.EPIPE)
    with pytest.raises(errors.DeviceGone):
        port.register(0x03, 2)


def test_close_twice_closes_once(port: LibibumadPort, lib: Any) -> None:
    port.close()
    port.close()
    lib.umad_close_port.assert_called_once_with(5)
    assert repr(port) == "<LibibumadPort mlx5_0 port 1, closed>"


def test_context_manager_closes_after_an_exception(lib: Any) -> None:
    with pytest.raises(KeyError), LibibumadPort("mlx5_0", 1):
        raise KeyError
    lib.umad_close_port.assert_called_once_with(5)


def test_forgotten_port_is_closed_by_the_collector(lib: Any) -> None:
    LibibumadPort("mlx5_0", 1)
    gc.collect()
    lib.umad_close_port.assert_called_once_with(5)


def test_a_thousand_ports_leave_nothing_open(lib: Any) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(1000):
        with LibibumadPort("mlx5_0", 1):
            lib.umad_register.side_effect = range(100)
    gc.collect()
    assert lib.umad_close_port.call_count == lib.umad_open_port.call_count == 1000
    assert len(os.listdir("/proc/self/fd")) == before
    assert not [each for each in gc.get_objects() if type(each) is LibibumadPort]


@pytest.mark.parametrize(
    "use",
    [
        lambda port: port.send([Outgoing(SMP)]),
        lambda port: port.recv(0),
        lambda port: port.attributes(),
        lambda port: port.register(0x03, 2),
    ],
)
def test_use_after_close(port: LibibumadPort, use: Callable[[LibibumadPort], Any]) -> None:
    port.close()
    with pytest.raises(errors.ClosedError, match="mlx5_0 port 1 was closed"):
        use(port)


def test_close_lets_the_last_replies_in(port: LibibumadPort, lib: Any) -> None:
    port.send([Outgoing(SMP)] * 2)
    lib.ibkeys_recv_batch.side_effect = received(port, (256, 0, 0, 0), (256, 0, 0, 0))
    port.close()
    assert lib.ibkeys_recv_batch.call_count == 1


# Sending


def refuse(codes: list[int]) -> Callable[..., int]:
    def send(*given: Any) -> int:
        count, out = given[-2:]
        for n in range(count):
            out[n] = codes[n]
        return sum(code != 0 for code in codes[:count])

    return send


def test_send_hands_over_records(port: LibibumadPort, lib: Any) -> None:
    seen = []

    def send(fd: int, agents: Any, records: bytes, *numbers: Any) -> int:
        tids, attributes, modifiers, _asked, count, _errors = numbers
        seen.append((fd, agents[0x01], agents[0x81], agents[0x03], records, tids, attributes, modifiers, count))
        return 0

    lib.ibkeys_send_batch.side_effect = send
    mad = bytes(range(256))
    short = SMP[:92]
    assert port.send([Outgoing(mad), Outgoing(short, 7, 250, 1, 0x80010000, 3, 2)]) == []
    records = struct.pack("=7I256s7I256s", 256, 0xFFFF, 1000, 0, 0, 0, 0, mad, 92, 7, 250, 1, 0x80010000, 3, 2, short)
    assert seen == [(5, 0, 1, -1, records, [0x0C0D0E0F, 0], [0x1011, 0], [0x14151617, 0], 2)]


def test_empty_batch_makes_no_call(port: LibibumadPort, lib: Any) -> None:
    assert port.send([]) == []
    lib.ibkeys_send_batch.assert_not_called()


def test_refused_mads_are_named_by_their_place(port: LibibumadPort, lib: Any) -> None:
    lib.ibkeys_send_batch.side_effect = refuse([0, errno.EINVAL, 0, errno.EAGAIN])
    assert port.send([Outgoing(SMP)] * 4) == [SendFailure(1, errno.EINVAL), SendFailure(3, errno.EAGAIN)]


def test_places_count_on_over_a_long_batch(port: LibibumadPort, lib: Any) -> None:
    calls = []

    def send(*given: Any) -> int:
        count, out = given[-2:]
        calls.append(count)
        out[count - 1] = errno.EINVAL
        return 1

    lib.ibkeys_send_batch.side_effect = send
    failures = port.send([Outgoing(SMP)] * 150)
    assert calls == [64, 64, 22]
    assert failures == [SendFailure(n, errno.EINVAL) for n in (63, 127, 149)]


def test_interrupted_send_goes_on_with_the_rest(port: LibibumadPort, lib: Any) -> None:
    lib.ibkeys_send_batch.side_effect = iter_calls(
        refuse([0, errno.EINVAL, errno.EINTR, errno.EINTR]), refuse([errno.EINVAL, 0])
    )
    assert port.send([Outgoing(SMP)] * 4) == [SendFailure(1, errno.EINVAL), SendFailure(2, errno.EINVAL)]


@pytest.mark.parametrize("reason", [errno.ENOTCONN, errno.ECONNREFUSED, errno.ECONNRESET, errno.EPIPE])
def test_a_simulator_that_ended_is_a_device_that_is_gone(port: LibibumadPort, lib: Any, reason: int) -> None:
    lib.ibkeys_send_batch.side_effect = refuse([0, reason, reason])
    with pytest.raises(errors.DeviceGone, match="or a simulator ended"):
        port.send([Outgoing(SMP)] * 3)


def test_device_gone_while_sending(port: LibibumadPort, lib: Any) -> None:
    lib.ibkeys_send_batch.side_effect = refuse([0, errno.EIO, errno.EIO])
    with pytest.raises(errors.DeviceGone, match=r"mlx5_0 port 1: .*umad_send") as caught:
        port.send([Outgoing(SMP)] * 3)
    assert caught.value.errno == errno.EIO


def test_class_without_an_agent_is_the_callers_mistake(port: LibibumadPort, lib: Any) -> None:
    lib.ibkeys_send_batch.side_effect = refuse([errno.EPROTONOSUPPORT])
    with pytest.raises(errors.UsageError, match="management class 0x03"):
        port.send([Outgoing(bytes([1, 3]) + bytes(254))])


@pytest.mark.parametrize("mad", [b"", b"\1", bytes(257)])
def test_mad_of_impossible_length(port: LibibumadPort, lib: Any, mad: bytes) -> None:
    lib.ibkeys_send_batch.side_effect = refuse([errno.EPROTONOSUPPORT])
    with pytest.raises(errors.EncodeError, match="256 bytes"):
        port.send([Outgoing(mad)])


@pytest.mark.parametrize("out", [Outgoing(SMP, lid=-1), Outgoing(SMP, qkey=1 << 32)])
def test_address_out_of_range(port: LibibumadPort, out: Outgoing) -> None:
    with pytest.raises(errors.EncodeError):
        port.send([out])


# Receiving


def received(port: LibibumadPort, *rows: tuple[int, int, int, int]) -> Callable[..., int]:
    def recv(_fd: int, mads: Any, out: Any, _answers: Any, _max: int, _timeout: int) -> int:
        for n, row in enumerate(rows):
            out[4 * n : 4 * n + 4] = list(row)
            mads[n * 256] = n + 1
        return len(rows)

    return recv


def iter_calls(*functions: Callable[..., int]) -> Callable[..., int]:
    rest = iter(functions)
    return lambda *arguments: next(rest)(*arguments)


def test_recv_cuts_each_mad_to_its_length(port: LibibumadPort, lib: Any) -> None:
    lib.ibkeys_recv_batch.side_effect = received(port, (256, 0, 9, 0), (24, ETIMEDOUT, 0, 0), (256, 0, 4, 1))
    first, second, third = port.recv(0.2)
    assert (first.mad[0], len(first.mad), first.status, first.lid, first.qpn) == (1, 256, 0, 9, 0)
    assert (second.mad, second.status) == (b"\2" + bytes(23), ETIMEDOUT)
    assert (third.mad[0], third.lid, third.qpn) == (3, 4, 1)


@pytest.mark.parametrize(("seconds", "milliseconds"), [(0, 0), (-1, 0), (0.0001, 1), (0.2, 200), (1e9, 0x7FFFFFFF)])
def test_wait_is_rounded_up_to_milliseconds(port: LibibumadPort, lib: Any, seconds: float, milliseconds: int) -> None:
    assert port.recv(seconds) == []
    assert lib.ibkeys_recv_batch.call_args.args[-1] == milliseconds


def test_signal_while_waiting_loses_nothing(port: LibibumadPort, lib: Any) -> None:
    lib.ibkeys_recv_batch.side_effect = iter_calls(lambda *_: -errno.EINTR, received(port, (256, 0, 9, 0)))
    assert len(port.recv(5)) == 1
    first, second = (call.args[-1] for call in lib.ibkeys_recv_batch.call_args_list)
    assert (first, second <= 5000) == (5000, True)


@pytest.mark.parametrize("reason", [errno.EIO, errno.ENODEV])
def test_device_gone_while_receiving(port: LibibumadPort, lib: Any, reason: int) -> None:
    lib.ibkeys_recv_batch.return_value = -reason
    with pytest.raises(errors.DeviceGone, match="umad_recv") as caught:
        port.recv(1)
    assert caught.value.errno == reason


def test_other_errors_keep_their_errno(port: LibibumadPort, lib: Any) -> None:
    lib.ibkeys_recv_batch.return_value = -errno.ENOMEM
    with pytest.raises(errors.TransportError) as caught:
        port.recv(1)
    assert (caught.type, caught.value.errno) == (errors.TransportError, errno.ENOMEM)


def test_sending_waits_when_much_is_on_the_way(port: LibibumadPort, lib: Any) -> None:
    lib.ibkeys_recv_batch.side_effect = iter_calls(received(port, (256, 0, 9, 0)))
    port.send([Outgoing(SMP)] * 320)
    assert lib.ibkeys_recv_batch.call_count == 1
    assert len(port.recv(0)) == 1, "what came meanwhile is delivered"


# Agents and attributes


def test_methods_become_a_mask(port: LibibumadPort, lib: Any) -> None:
    port.register(0x04, 1, [1, 5, 127])
    mask = lib.umad_register.call_args.args[4]
    assert bytes(devices.binding().ffi.buffer(mask)) == (1 << 1 | 1 << 5 | 1 << 127).to_bytes(16, sys.byteorder)


def test_sa_agent_takes_segments_as_they_come(port: LibibumadPort, lib: Any) -> None:
    port.register(0x03, 2)
    assert lib.umad_register.call_args.args[:4] == (5, 0x03, 2, 0)


def test_registering_again_replaces_the_agent(port: LibibumadPort, lib: Any) -> None:
    port.register(0x81, 1, [5])
    lib.umad_unregister.assert_called_once_with(5, 1)


@pytest.mark.parametrize(("mgmt_class", "methods"), [(0, []), (256, []), (3, [128]), (3, [-1])])
def test_impossible_agent(port: LibibumadPort, mgmt_class: int, methods: list[int]) -> None:
    with pytest.raises(errors.UsageError):
        port.register(mgmt_class, 1, methods)


def test_attributes_of_a_port_that_went_away(port: LibibumadPort, lib: Any) -> None:
    lib.umad_get_port.return_value = -errno.EIO
    with pytest.raises(errors.DeviceGone):
        port.attributes()
    lib.umad_release_port.assert_not_called()


# SMPs and GMPs on two devices


def test_gmps_go_through_the_partner_device(lib: Any) -> None:
    lib.umad_open_port.side_effect = [5, 6]
    port = LibibumadPort("smi0", 1, gsi_ca=("mlx5_0", 2))
    port.register(0x03, 2)
    assert lib.umad_open_port.call_args_list[1].args == (b"mlx5_0", 2)
    assert lib.umad_register.call_args.args[0] == 6
    lib.ibkeys_send_batch.side_effect = lambda fd, *rest: refuse([0 if fd == 5 else errno.EINVAL] * 2)(fd, *rest)
    gmp = Outgoing(bytes([1, 3]) + bytes(254), 1, qpn=1)
    assert port.send([gmp, Outgoing(SMP), gmp]) == [SendFailure(0, errno.EINVAL), SendFailure(2, errno.EINVAL)]
    lib.ibkeys_poll_pair.return_value = 0
    lib.ibkeys_recv_batch.side_effect = received(port, (256, 0, 1, 1))
    assert len(port.recv(1)) == 2
    lib.ibkeys_recv_batch.side_effect = None
    port.close()
    assert [call.args for call in lib.umad_close_port.call_args_list] == [(5,), (6,)]


def test_requests_in_parts_go_through_their_device_each(lib: Any) -> None:
    lib.umad_open_port.side_effect = [5, 6]
    port = LibibumadPort("smi0", 1, gsi_ca=("mlx5_0", 2))
    port.register(0x04)
    gmp = bytes([1, 4]) + bytes(254)
    scheduler = Scheduler(first_tid=40)
    for node, (mad, to) in enumerate([(gmp, (1, 0x80010000, 0, 0)), (SMP, (0, 0, 0, 0)), (gmp, (1, 0x80010000, 0, 0))]):
        scheduler.submit(Request.of_mad(node, mad, 1, to=to))
    sent = {}

    def send(fd: int, _agents: Any, records: bytes, tids: list[int], *_others: Any) -> int:
        sent[fd] = (tids, [records[284 * n + 28 + 1] for n in range(len(tids))])
        return 0

    lib.ibkeys_send_batch.side_effect = send
    assert port.send(scheduler.to_send(0.0)) == []
    assert sent == {5: ([42], [0x81]), 6: ([41, 43], [4, 4])}
    lib.ibkeys_poll_pair.return_value = 0
    port.close()


def test_pair_is_found_by_the_port_guid_when_libibumad_is_too_old(lib: Any) -> None:
    smi = make_port(ca_name="smi0")
    cas = [make_ca("mlx5_0", make_port(port=2, capability_mask=0x400)), make_ca("smi0", smi)]
    assert devices.gsi_partner(cas, smi) == ("mlx5_0", 2)
    assert devices.gsi_partner([make_ca("mlx5_0", PORT)], PORT) is None


def test_pair_is_what_libibumad_says(lib: Any) -> None:
    def pair(_smi: bytes, name: Any) -> int:
        name[0:6] = [bytes([each]) for each in b"mlx5_1"]
        return 0

    lib.ibkeys_gsi_of.side_effect = pair
    assert devices.gsi_partner([make_ca("smi0", PORT)], make_port(ca_name="smi0")) == ("mlx5_1", 1)


# The extension


def test_extension_not_built(mocker: MockerFixture) -> None:
    mocker.patch.dict(sys.modules, {"ibkeys.umad._libibumad": None})
    with pytest.raises(LibraryMissing, match="apt-get install libibumad-dev gcc pkg-config python3-dev, then"):
        devices.binding.__wrapped__()


def test_open_port_without_the_module(lib: Any, mocker: MockerFixture) -> None:
    mocker.patch.object(devices, "list_cas", return_value=(make_ca("mlx5_0", PORT),))
    mocker.patch.object(libibumad, "list_cas", return_value=(make_ca("mlx5_0", PORT),))
    mocker.patch("os.listdir", side_effect=FileNotFoundError)
    with pytest.raises(errors.ModuleMissing, match="modprobe ib_umad") as caught:
        open_port()
    assert caught.value.errno == errno.EOPNOTSUPP
    lib.umad_open_port.assert_not_called()
