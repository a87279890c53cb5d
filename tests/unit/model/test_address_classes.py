"""Which addresses outgoing requests may reach: a corpus of what attackers write, by class."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from mainspring.model.values.address_classes import METADATA, PUBLIC, address_class, may_reach, written_address

pytestmark = pytest.mark.req("SEC-4")

CLASSES = {
    PUBLIC: """
        1.1.1.1 8.8.8.8 93.184.216.34 11.0.0.0 9.255.255.255 172.15.255.255 172.32.0.0 192.167.255.255 192.169.0.0
        100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 169.253.255.255 169.255.0.0 198.17.255.255 198.20.0.0
        223.255.255.255 2606:2800:220:1::1 2a00:1450:4001:81b::200e 2001:4860:4860::8888 2400:cb00::1 3ffe::1
        ::ffff:8.8.8.8 64:ff9b::808:808
        """,
    "loopback": "127.0.0.1 127.0.0.0 127.255.255.255 127.1.2.3 ::1 ::ffff:127.0.0.1 64:ff9b::7f00:1 ::ffff:7f00:1",
    "unspecified": "0.0.0.0 0.1.2.3 0.255.255.255 :: ::ffff:0.0.0.0 64:ff9b::",
    "private": """
        10.0.0.0 10.255.255.255 172.16.0.0 172.31.255.255 192.168.0.0 192.168.255.255 fc00:: fd00::1 fdff:ffff::1
        ::ffff:10.0.0.1 ::ffff:192.168.1.1 64:ff9b::a00:1 64:ff9b::c0a8:101
        """,
    "link-local": "169.254.0.0 169.254.255.255 169.254.1.1 fe80:: fe80::1 febf:ffff::1 fe80::1%eth0 ::ffff:169.254.1.1",
    "shared by a provider (CGNAT)": "100.64.0.0 100.127.255.255 ::ffff:100.64.0.1",
    "multicast": "224.0.0.0 239.255.255.255 224.0.0.251 ff00:: ff02::1 ff0e::1 ffff::1 ::ffff:224.0.0.1",
    "broadcast": "255.255.255.255 ::ffff:255.255.255.255",
    "reserved": """
        240.0.0.0 255.255.255.254 192.0.0.0 192.0.0.8 192.88.99.1 100::1 200::1 400::1 4000::1 5f00::1 8000::1 e000::1
        2001:3::1 2001:10::1 2001:20::1 2001:1ff::1 1::1 64:ff9b:2::1 f000::1
        """,
    "documentation": "192.0.2.1 198.51.100.1 203.0.113.255 2001:db8::1 3fff::1 3fff:fff:ffff::1 ::ffff:192.0.2.1",
    "benchmarking": "198.18.0.0 198.19.255.255 2001:2::1",
    "site-local": "fec0::1 feff:ffff::1",
    "IPv4 inside IPv6 (compatible)": "::127.0.0.1 ::10.0.0.1 ::8.8.8.8 ::7f00:1 ::2",
    "IPv4 inside IPv6 (translated)": "::ffff:0:127.0.0.1 ::ffff:0:808:808",
    "IPv4 inside IPv6 (NAT64, local use)": "64:ff9b:1::1 64:ff9b:1:7f00:0:100:: 64:ff9b:1:ffff::7f00:1",
    "IPv4 inside IPv6 (Teredo)": "2001:0:7f00:1:: 2001:0:4136:e378:8000:63bf:80ff:fffe 2001::1",
    "IPv4 inside IPv6 (6to4)": "2002:7f00:1:: 2002:a00:1::1 2002:808:808::1",
    "IPv4 inside IPv6 (ISATAP)": "2606:2800:220:1::5efe:7f00:1 2606:2800:220:1:200:5efe:a00:1",
    METADATA: """
        169.254.169.254 169.254.169.253 169.254.170.2 169.254.170.23 fd00:ec2::254 fd00:ec2::23 fd20:ce::254
        168.63.129.16 100.100.100.200 192.0.0.192 169.254.0.23 169.254.42.42 fe80::a9fe:a9fe fe80::a9fe:a9fe%eth0
        ::ffff:169.254.169.254 ::ffff:a9fe:a9fe 64:ff9b::a9fe:a9fe ::ffff:168.63.129.16
        ::169.254.169.254 ::ffff:0:169.254.169.254 64:ff9b:1::a9fe:a9fe 2002:a9fe:a9fe:: 2002:a83f:8110::1
        2001:0:4136:e378:8000:63bf:5601:5601 2606:2800:220:1::5efe:a9fe:a9fe
        fd00:c1::a9fe:a9fe fd00:a9fe:a9fe::1 fd00:100::100:200 fe80::5efe:a9fe:a9fe
        64:ff9b:1:a9fe:a9:fe00:: 64:ff9b:1:aba9:fe:a9fe:: 64:ff9b:1:abcd:a9:fea9:fe00:0 64:ff9b:1:6464:64:c800::
        """,
}


@pytest.mark.parametrize("name", CLASSES)
def test_every_address_is_of_its_class(name: str) -> None:
    found = {text: address_class(ip_address(text)) for text in CLASSES[name].split()}
    assert found == dict.fromkeys(found, name)
    for text in found:
        address = ip_address(text)
        assert may_reach(address, private=False) == (name == PUBLIC), text
        assert may_reach(address, private=True) == (name != METADATA), text


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.1", "0x7f.1", "2130706433", "0177.0.0.1", "127.0.0.1.", "localhost", "jobs.LOCALHOST", "::1"],
)
def test_every_spelling_of_this_machine_is_known_without_a_look_up(host: str) -> None:
    found = written_address(host)
    assert found is not None
    assert address_class(found) == "loopback"


@pytest.mark.parametrize("host", ["hooks.example", "127.0.0.1.example", "localhost.example", "xn--e1afmkfd", "a.1b"])
def test_names_are_left_to_the_look_up(host: str) -> None:
    assert written_address(host) is None
