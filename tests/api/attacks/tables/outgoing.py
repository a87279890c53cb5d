"""Addresses that this server must not be made to call: when a webhook is made, when one is changed, and in pings."""

from __future__ import annotations

from tests.api.attacks.attack import Attack, attack

ADDRESSES = (
    *("http://127.0.0.1/", "http://127.1/", "http://0/", "http://0.0.0.0/", "http://2130706433/"),
    *("http://0x7f000001/", "http://0x7f.1/", "http://017700000001/", "http://0177.0.0.1/", "http://127.0.0.1.:80/"),
    *("http://[::1]/", "http://[::]/", "http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/"),
    *("http://[::127.0.0.1]/", "http://[0:0:0:0:0:0:0:1]/", "http://[64:ff9b::7f00:1]/"),
    *("http://[64:ff9b:1::7f00:1]/", "http://[2002:7f00:1::]/", "http://[2001:0:7f00:1::]/"),
    *("http://[::ffff:0:127.0.0.1]/", "http://10.0.0.1/", "http://172.16.0.1/", "http://192.168.1.1/"),
    *("http://100.64.0.1/", "http://169.254.169.254/latest/meta-data/", "http://[fd00:ec2::254]/"),
    *("http://100.100.100.200/", "http://168.63.129.16/", "http://192.0.0.192/", "http://[fe80::1]/"),
    *("http://[fe80::1%25eth0]/", "http://[fec0::1]/", "http://[fc00::1]/", "http://224.0.0.1/"),
    *("http://255.255.255.255/", "http://192.0.2.1/", "http://198.18.0.1/", "http://240.0.0.1/", "http://localhost/"),
    *("http://LOCALHOST/", "http://localhost./", "http://[2001:0:4136:e378:8000:63bf:80ff:fffe]/"),
    *("http://[64:ff9b::a9fe:a9fe]/", "http://[2002:a9fe:a9fe::]/", "http://[2606:2800:220:1::5efe:7f00:1]/"),
    *("http://[::ffff:0:a9fe:a9fe]/", "http://[::FFFF:127.0.0.1]/", "http://0.1.2.3/", "http://0X7F.0.0.1/"),
    *(
        "http://127.0.1/",
        "http://0251.0376.0251.0376/",
        "http://2852039166/",
        "http://0xa9fea9fe/",
        "http://192.88.99.1/",
    ),
    *("http://[2001:db8::1]/", "http://[2001:2::1]/", "http://[ff02::1]/", "http://[100::1]/", "http://198.51.100.1/"),
    *("http://169.254.170.2/", "http://[fd20:ce::254]/", "http://203.0.113.9/", "http://192.0.0.8/"),
)
FORMS = {
    "file": "file:///etc/passwd",
    "gopher": "gopher://127.0.0.1:6379/_FLUSHALL",
    "ftp": "ftp://127.0.0.1/",
    "dict": "dict://127.0.0.1:11211/stats",
    "javascript": "javascript:alert(1)",
    "data": "data:text/html,x",
    "a Unix socket": "http+unix://%2Fvar%2Frun%2Fdocker.sock/",
    "no scheme": "//example.com/",
    "no host": "http:///x",
    "credentials before the host": "https://example.com@127.0.0.1/",
    "a backslash": "https://example.com\\@127.0.0.1/",
    "a line break": "https://example.com/\r\nHost: evil",
    "a space": "https://example.com/ HTTP/1.1",
    "a port out of range": "https://example.com:99999/",
    "a port of zero": "https://example.com:0/",
    "an escaped host": "https://%31%32%37.0.0.1/",
    "an escaped dot": "https://127%2e0%2e0%2e1/",
    "fullwidth digits": "https://\uff11\uff12\uff17.0.0.1/",
    "circled digits": "https://\u2460\u2461\u2466.0.0.1/",
    "an ideographic full stop": "https://127\u30020\u30020\u30021/",
    "a NUL in the host": "https://exam\0ple.com/",
    "an open bracket": "https://[::1/",
    "an IPv6 address with a tail": "https://[::1]evil.example/",
    "10 KB": "https://example.com/" + "a" * 10_000,
}


def attacks() -> list[Attack]:
    """Addresses that are none are refused at once; `test_outgoing.py` tries where the others lead."""
    made = []
    for kind, url in FORMS.items():
        made.append(attack(f"{kind} in an address", "POST /api/v1/webhooks", 400, json={"url": url}, who="admin"))
        ping = {"ping": {"success": url}}
        made.append(attack(f"{kind} in an address", "PUT /api/v1/jobs/greet", 400, json=ping, who="operator"))
    return made
