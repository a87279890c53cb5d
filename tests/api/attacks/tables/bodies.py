"""Bodies that are no honest JSON: too deep, too large, of another type, encoding or shape."""

from __future__ import annotations

import gzip
import json
from typing import Any

from tests.api.attacks.attack import Attack, Who, attack

CREATE, TRIGGER, TEMPLATE = "POST /api/v1/jobs", "POST /api/v1/jobs/greet/trigger", "POST /api/v1/templates"
JSON = ("content-type", "application/json")


def _bytes() -> dict[str, bytes]:
    deep = b'{"params": ' + b"[" * 50_000 + b"]" * 50_000 + b"}"
    return {
        "a depth bomb of lists": deep,
        "a depth bomb of objects": b'{"params":' + b'{"a":' * 20_000 + b"1" + b"}" * 20_000 + b"}",
        "an unclosed depth bomb": b"[" * 500_000,
        "a list instead of an object": b"[]",
        "a text instead of an object": b'"greet"',
        "a number instead of an object": b"7",
        "a text with a control character": b'{"handler": "gr\x01eet"}',
        "NaN": b'{"params": {"name": NaN}}',
        "Infinity": b'{"params": {"name": Infinity}}',
        "a number beyond every float": b'{"params": {"name": 1e400}}',
        "a whole number of 10,000 digits": b'{"params": {"name": ' + b"9" * 10_000 + b"}}",
        "a lone surrogate": b'{"handler": "\\ud800", "params": {"name": "\\ud800"}}',
        "bytes that are no UTF-8": b'{"handler": "\xff\xfe", "params": {"name": "\xff"}}',
        "overlong UTF-8": b'{"handler": "\xc0\xaf", "params": {"name": "\xc0\xaf"}}',
        "UTF-16": '{"handler": "greet"}'.encode("utf-16"),
        "UTF-32": '{"handler": "greet"}'.encode("utf-32"),
        "NUL in a text": b'{"handler": "greet\\u0000", "params": {"name": "\\u0000"}}',
        "truncated": b'{"handler": "greet"',
        "two documents": b'{"handler": "greet"} {"handler": "greet"}',
        "a comment": b'{"handler": "greet" /* admin */}',
        "single quotes": b"{'handler': 'greet'}",
        "a form in place of JSON": b"handler=greet&name=x",
        "XML with an entity": b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>',
        "a pickle": b"cos\nsystem\n(S'id'\ntR.",
        "a YAML tag": b"!!python/object/apply:os.system ['id']",
        "a key of 900,000 characters": b'{"' + b"a" * 900_000 + b'": 1}',
        "50,000 unknown keys": json.dumps({f"k{i}": i for i in range(50_000)}).encode(),
        "one byte over a mebibyte": b" " * (1024 * 1024 + 1),
        "gzip of ten megabytes": gzip.compress(b" " * 10_000_000),
    }


def _headers() -> dict[str, tuple[tuple[str, str], ...]]:
    """Around a body that would be right."""
    return {
        "text/plain, which needs no preflight": (("content-type", "text/plain"),),
        "a form, which needs no preflight": (("content-type", "application/x-www-form-urlencoded"),),
        "a multipart form": (("content-type", "multipart/form-data; boundary=x"),),
        "no content type": (),
        "text/json": (("content-type", "text/json"),),
        "JSON hidden in a parameter": (("content-type", "text/plain; application/json"),),
        "JSON after a comma": (("content-type", "text/plain, application/json"),),
        "a length of rubbish": (JSON, ("content-length", "1e3")),
        "a length below zero": (JSON, ("content-length", "-1")),
        "a length beyond all memory": (JSON, ("content-length", "9" * 30)),
        "a length in other digits": (JSON, ("content-length", "\u00b2")),
    }


def _fields() -> dict[str, dict[str, Any]]:
    """Fields that a request must not be able to set, beside those of a good request."""
    return {
        "__proto__": {"__proto__": {"role": "admin"}},
        "constructor": {"constructor": {"prototype": {"role": "admin"}}},
        "__class__": {"__class__": "Secret"},
        "$where": {"$where": "sleep(1000)"},
        "an operator instead of a name": {"handler": {"$gt": ""}},
        "a list instead of a name": {"handler": ["greet"]},
        "by": {"by": "root"},
        "actor": {"actor": "root"},
        "role": {"role": "admin"},
        "origin": {"origin": "code"},
        "declared": {"declared": "{}"},
        "tag": {"tag": "x"},
        "id": {"id": "0199c1f2-7d5e-7abc-8def-0123456789ab"},
        "tenant_context": {"tenant_context": "os.system"},
        "allow_override": {"allow_override": True},
    }


def attacks() -> list[Attack]:
    made: list[Attack] = []
    who: Who = "operator"
    for door in (CREATE, TRIGGER):
        for kind, body in _bytes().items():
            made.append(attack(kind, door, 400, 413, 415, body=body, headers=(JSON,), who=who))
    good = b'{"handler": "greet", "name": "made-by-an-attack"}'
    for kind, headers in _headers().items():
        made.append(attack(kind, CREATE, 400, 413, 415, body=good, headers=headers, who=who))
    made.append(attack("Content-Encoding", CREATE, 400, 415, body=gzip.compress(good), headers=_zipped(), who=who))
    for kind, fields in _fields().items():
        body = {"handler": "greet", "name": "made-by-an-attack", **fields}
        made.append(attack(f"the field {kind}", CREATE, 400, json=body, who=who))
    return made


def _zipped() -> tuple[tuple[str, str], ...]:
    return JSON, ("content-encoding", "gzip")
