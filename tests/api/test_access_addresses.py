"""Where a request comes from, whoever lies about it."""

from __future__ import annotations

from ipaddress import ip_address
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mainspring.core.access.addresses import MOST_HOPS, Client, Networks, client_of, parse_address
from mainspring.model.errors import InvalidValue
from mainspring.model.values.access import network
from mainspring.server.access import Guard
from tests.api.access_support import SECRET, STRANGER, ask, settings, signed, tiny_api

pytestmark = pytest.mark.req("SEC-1")

PROXIES = Networks(["10.0.0.0/8", "2001:db8:1::/48"])
XFF = "x-forwarded-for"


def client(peer: str | None, *headers: tuple[str, str], proxies: Networks = PROXIES, header: str = XFF) -> Client:
    return client_of(peer, headers, proxies, header)


def found(peer: str | None, *values: str, proxies: Networks = PROXIES) -> str | None:
    address = client(peer, *[(XFF, value) for value in values], proxies=proxies).address
    return None if address is None else str(address)


# --- plain cases --------------------------------------------------------------------------------------------------


def test_without_proxies_the_peer_counts_whatever_headers_say() -> None:
    nobody = Networks()
    assert found(STRANGER, "10.1.1.1", proxies=nobody) == STRANGER
    assert found(STRANGER, "127.0.0.1", proxies=nobody) == STRANGER


def test_a_listed_proxy_is_believed_one_hop_at_a_time() -> None:
    assert found("10.0.0.1", STRANGER) == STRANGER
    assert found("10.0.0.1", f"1.1.1.1, {STRANGER}") == STRANGER, "what stands further left is the client's own word"
    assert found("10.0.0.1", f"1.1.1.1, {STRANGER}, 10.0.0.2") == STRANGER
    assert found("10.0.0.1", "1.1.1.1", STRANGER, "10.0.0.2") == STRANGER, "several headers are one list"
    assert found("10.0.0.1", "10.0.0.7, 10.0.0.2") == "10.0.0.7", "a client in the proxies' network"
    assert found("10.0.0.1") == "10.0.0.1"


@pytest.mark.parametrize(
    "value", ["unknown", "_hidden", "", " , ", "1.2.3", "1.2.3.4.5", "01.2.3.4", "::1::", "a" * 9000]
)
def test_what_a_proxy_does_not_say_is_nowhere(value: str) -> None:
    assert client("10.0.0.1", (XFF, value)).address is None
    assert not client("10.0.0.1", (XFF, value)).direct


def test_an_endless_chain_is_nowhere() -> None:
    assert found("10.0.0.1", ",".join(["10.0.0.2"] * MOST_HOPS)) == "10.0.0.2"
    assert found("10.0.0.1", ",".join(["10.0.0.2"] * (MOST_HOPS + 1))) is None


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("192.0.2.7:8080", "192.0.2.7"),
        ("[2001:db8::7]", "2001:db8::7"),
        ("[2001:db8::7]:443", "2001:db8::7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("::FFFF:7f00:1", "127.0.0.1"),
        ("fe80::1%eth0", "fe80::1"),
        (" 192.0.2.7 ", "192.0.2.7"),
    ],
)
def test_how_addresses_are_written(text: str, address: str) -> None:
    assert parse_address(text) == ip_address(address)


# --- loopback -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"])
def test_loopback_is_who_comes_straight_from_it(peer: str) -> None:
    assert client(peer).direct


@pytest.mark.parametrize("peer", [STRANGER, "10.0.0.1", "0.0.0.0", "::", "testclient", None])
def test_nobody_else_is(peer: str | None) -> None:
    assert not client(peer).direct


@pytest.mark.parametrize(
    "header",
    ["X-Forwarded-For", "Forwarded", "X-Real-IP", "X-Forwarded-Host", "X-Forwarded-Proto", "Via", "CF-Connecting-IP"],
)
@pytest.mark.parametrize("value", ["127.0.0.1", "for=127.0.0.1", "", "::1"])
def test_a_forwarded_request_is_never_from_loopback(header: str, value: str) -> None:
    """Neither through a proxy nobody listed, on this machine or another, nor through a listed one."""
    for peer, proxies in [
        ("127.0.0.1", Networks()),
        ("127.0.0.1", PROXIES),
        ("127.0.0.1", Networks(["127.0.0.1"])),
        ("10.0.0.1", PROXIES),
        (None, Networks(["unix"])),
        (None, Networks()),
    ]:
        seen = client(peer, (header, value), proxies=proxies)
        assert not seen.direct
        assert seen.address is None or not seen.address.is_loopback


def test_loopback_listed_as_a_proxy_is_a_way_in_for_strangers() -> None:
    assert not client("127.0.0.1", proxies=Networks(["127.0.0.0/8"])).direct


def test_a_unix_socket_is_a_proxy_only_when_listed() -> None:
    assert found(None, STRANGER, proxies=Networks(["unix"])) == STRANGER
    assert found(None, STRANGER, proxies=PROXIES) is None
    assert found(None, proxies=Networks(["unix"])) is None


def test_unix_and_tcp_peers_are_listed_each_for_themselves() -> None:
    both = Networks(["unix", "10.0.0.0/8"])
    assert found(None, STRANGER, proxies=both) == found("10.0.0.1", STRANGER, proxies=both) == STRANGER
    assert found(None, f"{STRANGER}, 10.0.0.2", proxies=both) == STRANGER, "a proxy behind the one on this machine"
    for peer in ("198.51.100.7", "2001:db8:2::1"):  # listing the Unix socket lists nobody on the network
        assert found(peer, STRANGER, proxies=both) == found(peer, STRANGER, proxies=Networks(["unix"])) == peer
    assert found("127.0.0.1", STRANGER, proxies=both) is None
    assert client("127.0.0.1", proxies=both).direct, "nor does it make local clients remote"
    assert not client(None, proxies=both).direct
    assert client(None, proxies=both).key != client("10.0.0.1", proxies=both).key
    assert client(None, (XFF, STRANGER), proxies=both).key == client(STRANGER, proxies=both).key


async def test_addresses_of_unix_and_tcp_peers_over_http() -> None:
    given = settings(trusted_proxies="unix, 10.0.0.1", sys_allow="192.0.2.0/24", jwt_secret=SECRET)
    api = tiny_api(Guard(given))
    inside, outside = [(XFF, "192.0.2.9")], [(XFF, STRANGER)]
    for peer, headers, status in [
        (None, inside, 200),
        ("10.0.0.1", inside, 200),
        (None, outside, 403),
        ("10.0.0.1", outside, 403),
        ("10.0.0.2", inside, 403),
        ("127.0.0.1", inside, 403),
        (None, [], 403),
    ]:
        answer = await ask(api, "/_sys/job", peer=peer, headers=headers, bearer=signed())
        assert answer.status == status, (peer, headers)


# --- the Forwarded header -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "address"),
    [
        ("for=203.0.113.9", STRANGER),
        ("For=203.0.113.9;proto=https;by=10.0.0.1", STRANGER),
        ("proto=https;for=203.0.113.9", STRANGER),
        ('for="[2001:db8::7]:4711"', "2001:db8::7"),
        ('for=1.1.1.1, for=203.0.113.9, for="10.0.0.2:80"', STRANGER),
        ('for=", for=203.0.113.9', STRANGER),
        ('for=1.1.1.1;host="a, b", for=203.0.113.9;host="c, d"', STRANGER),
        ("for=unknown", None),
        ("for=_gazonk", None),
        ("for=1.1.1.1;for=203.0.113.9", None),
        ("proto=https", None),
    ],
)
def test_forwarded(value: str, address: str | None) -> None:
    seen = client("10.0.0.1", ("Forwarded", value), header="forwarded").address
    assert seen == (None if address is None else ip_address(address))


def test_only_the_header_that_proxies_write_is_read() -> None:
    """A proxy that writes one of them passes the other through, as the client made it up."""
    both = [("Forwarded", "for=10.9.9.9"), (XFF, STRANGER)]
    assert client("10.0.0.1", *both).address == ip_address(STRANGER)
    assert client("10.0.0.1", ("Forwarded", "for=10.9.9.9")).address is None


# --- who controls which hop ---------------------------------------------------------------------------------------

listed = st.ip_addresses(network="10.0.0.0/8") | st.ip_addresses(network="2001:db8:1::/48")
unlisted = st.ip_addresses(network="203.0.113.0/24") | st.ip_addresses(network="2001:db8:2::/48")
anything = st.text(st.characters(codec="latin-1", exclude_characters="\r\n"), max_size=30)
lies = st.lists(
    anything | listed.map(str) | st.just("127.0.0.1") | st.just('for="') | st.just("for=127.0.0.1,"), max_size=3
)


@st.composite
def journeys(draw: st.DrawFn, header: str) -> tuple[list[str], list[str]]:
    """The hops of a request from the client to the one that connects to us, and the header lines that arrive.

    The client and unlisted proxies write what they like. Listed ones append the address they were connected from, to
    the last line or as a line of their own.
    """
    route = [draw(unlisted), *draw(st.lists(listed | unlisted, max_size=4))]
    lines = draw(lies)
    for before, proxy in pairwise(route):
        if proxy not in PROXIES:
            lines = draw(lies)
            continue
        entry = draw(st.sampled_from(written(str(before), header)))
        if lines and draw(st.booleans()):
            lines = [*lines[:-1], f"{lines[-1]}, {entry}"]
        else:
            lines = [*lines, entry]
    return [str(hop) for hop in route], lines


def written(address: str, header: str) -> list[str]:
    """The ways in which proxies write an address."""
    bracketed = f"[{address}]" if ":" in address else address
    if header == "forwarded":
        return [
            f'for="{bracketed}"',
            f'proto=https;for="{bracketed}:4711";by=10.0.0.1',
            f'For="{bracketed}";host="a,b"',
        ]
    return [address, bracketed, f"{bracketed}:4711", *([] if ":" in address else [f"::ffff:{address}"])]


@pytest.mark.parametrize("header", [XFF, "forwarded"])
@given(data=st.data())
def test_the_client_is_the_last_hop_that_nobody_vouches_for(header: str, data: st.DataObject) -> None:
    route, lines = data.draw(journeys(header))
    seen = client(route[-1], *[(header, line) for line in lines], header=header)
    nearest_unlisted = next(hop for hop in reversed(route) if ip_address(hop) not in PROXIES)
    assert seen.address == ip_address(nearest_unlisted)
    assert not seen.direct


@given(peer=st.none() | unlisted.map(str) | st.just("127.0.0.1") | anything, lines=lies)
@example(peer="127.0.0.1", lines=["127.0.0.1"])
def test_headers_move_nobody_who_is_not_listed(peer: str | None, lines: list[str]) -> None:
    plain, seen = client(peer), client(peer, *[(XFF, line) for line in lines])
    assert seen.address in {plain.address, None}
    assert seen.key == plain.key
    assert seen.direct == (plain.direct and not lines)


@given(lines=st.lists(anything, min_size=1, max_size=5), header=st.sampled_from([XFF, "forwarded"]))
def test_garbage_never_raises_and_is_never_loopback(lines: list[str], header: str) -> None:
    seen = client("10.0.0.1", *[(header, line) for line in lines], header=header)
    assert not seen.direct


# --- what failed logins are counted by ----------------------------------------------------------------------------


def test_one_host_of_ipv6_has_one_count() -> None:
    assert client("2001:db8:2::1").key == client("2001:db8:2::ffff:1").key
    assert client("2001:db8:2:1::1").key != client("2001:db8:2:2::1").key
    assert client("203.0.113.1").key != client("203.0.113.2").key


# --- lists --------------------------------------------------------------------------------------------------------


def test_networks() -> None:
    inside = Networks(["10.0.0.0/8", "192.0.2.7", "2001:db8::/32", "::ffff:198.51.100.0/120"])
    assert all(ip_address(text) in inside for text in ["10.255.0.1", "192.0.2.7", "2001:db8::1", "198.51.100.3"])
    assert not any(ip_address(text) in inside for text in ["11.0.0.1", "192.0.2.8", "2001:db9::1"])
    assert None not in inside
    assert not Networks()


@pytest.mark.parametrize("text", ["10.0.0.0/33", "ten", "", 7, "10.0.0.1/8"])
def test_a_network_that_is_none_is_named(text: object) -> None:
    with pytest.raises(InvalidValue, match="sys_allow"):
        network("sys_allow", text)


def test_host_bits_are_asked_about() -> None:
    with pytest.raises(InvalidValue, match=r"Did you mean 10.0.0.0/8\?"):
        network("sys_allow", "10.0.0.1/8")


# --- over HTTP ----------------------------------------------------------------------------------------------------


async def test_an_empty_list_means_this_machine_only() -> None:
    api = tiny_api(Guard(settings(trusted_proxies="10.0.0.1")))
    assert (await ask(api, "/_sys/job")).status == 200
    for peer, headers in [
        (STRANGER, []),
        ("127.0.0.1", [(XFF, "127.0.0.1")]),
        ("10.0.0.1", [(XFF, "127.0.0.1")]),
        (None, []),
    ]:
        refused = await ask(api, "/_sys/job", peer=peer, headers=headers)
        assert (refused.status, refused.code) == (403, "address_not_allowed")
        assert "sys_allow" in refused.message


async def test_a_list_is_the_whole_truth() -> None:
    allowed = settings(sys_allow="192.0.2.0/24", trusted_proxies="10.0.0.1", api_tokens=False)
    api = tiny_api(Guard(allowed))
    assert (await ask(api, "/_sys/job")).status == 403, "loopback is not in it"
    listed = await ask(api, "/_sys/job", peer="192.0.2.9")
    assert (listed.status, listed.code) == (403, "loopback_only"), "an address opens no door that needs a login"


async def test_all_routes_can_be_limited() -> None:
    api = tiny_api(Guard(settings(api_allow="192.0.2.0/24, 127.0.0.1")))
    assert (await ask(api, "/viewer")).status == 200
    refused = await ask(api, "/viewer", peer=STRANGER, bearer="anything")
    assert (refused.status, refused.code) == (403, "address_not_allowed")
    assert [(await ask(api, "/healthz", peer=peer)).status for peer in (STRANGER, "192.0.2.7")] == [403, 200]
