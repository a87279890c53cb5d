"""What routes declare, what they answer, and the matrix that looks at all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
from fastapi import APIRouter, Depends, FastAPI
from fastapi.routing import iter_route_contexts

from mainspring.core.declaring.job_specs import job_spec
from mainspring.core.rules.job_roles import role_for
from mainspring.model.errors import InvalidValue
from mainspring.model.job import Job, encode_spec
from mainspring.model.values.access import Role, role
from mainspring.server.access import (
    LOOPBACK,
    Guard,
    Principal,
    Refused,
    access_extra,
    limited_to_sys,
    may_steer,
    needs,
    required_role,
    sys_access,
)
from tests.api.access_matrix import cases, mismatches, operations
from tests.api.access_support import SECRET, STRANGER, ask, settings, signed, tiny_api

pytestmark = pytest.mark.req("SEC-2")


def documented(api: FastAPI) -> dict[str, Any]:
    """The OpenAPI document with the roles in it, as the interface makes it."""
    for route in api.routes:
        route.openapi_extra = access_extra(route)  # type: ignore[attr-defined]
    api.openapi_schema = None
    return api.openapi()


# --- roles --------------------------------------------------------------------------------------------------------


def test_each_role_may_what_those_below_it_may() -> None:
    assert [[have.covers(need) for need in Role] for have in Role] == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]


@pytest.mark.parametrize("value", ["root", "Admin", "", None, 7])
def test_other_words_are_no_roles(value: object) -> None:
    with pytest.raises(InvalidValue, match="'viewer', 'operator' or 'admin'"):
        role("role", value)


# --- answers ------------------------------------------------------------------------------------------------------


async def test_refusals_say_what_is_needed() -> None:
    api = tiny_api(Guard(settings(jwt_secret=SECRET)))
    nobody = await ask(api, "/operator", peer=STRANGER)
    assert (nobody.status, nobody.code) == (401, "no_credentials")
    assert nobody.headers["www-authenticate"] == 'Bearer realm="mainspring"'
    viewer = await ask(api, "/operator", peer=STRANGER, bearer=signed(role="viewer"))
    assert (viewer.status, viewer.code) == (403, "role_too_low")
    assert viewer.message == "this needs the role operator; jwt:ada has viewer"
    assert "www-authenticate" not in viewer.headers
    assert (await ask(api, "/operator", peer=STRANGER, bearer=signed(role="operator"))).status == 200


@pytest.mark.req("OPS-5")
async def test_strangers_are_told_nothing_and_friends_are_known() -> None:
    api = tiny_api(Guard(settings(jwt_secret=SECRET)))
    for bearer in (None, "wrong", signed()):
        assert (await ask(api, "/healthz", peer=STRANGER, bearer=bearer)).body == {"status": "ok"}


async def test_an_application_without_a_guard_lets_nobody_in() -> None:
    api = tiny_api(Guard(settings()))
    del api.state.guard
    with pytest.raises(RuntimeError, match="no guard"):
        await ask(api, "/viewer")


async def test_a_guard_holds_inside_another_application() -> None:
    host = FastAPI()
    host.mount("/jobs-api", tiny_api(Guard(settings(jwt_secret=SECRET))))
    assert (await ask(host, "/jobs-api/viewer", peer=STRANGER)).status == 401
    assert (await ask(host, "/jobs-api/viewer", peer=STRANGER, bearer=signed())).status == 200


def test_nobody_passes_for_another_by_name() -> None:
    actors = [
        LOOPBACK.actor,
        Principal("loopback", Role.ADMIN, "jwt").actor,
        Principal("loopback", Role.ADMIN, "token", "1").actor,
        Principal("loopback", Role.ADMIN, "token", "2").actor,
    ]
    assert len(set(actors)) == len(actors)


# --- jobs that ask for more ---------------------------------------------------------------------------------------


def job(**options: Any) -> Job:
    return Job(name="close", id="1", declared=encode_spec(job_spec("close", None, options)))


def test_a_job_may_ask_for_a_higher_role() -> None:
    operator, admin = Principal("ada", Role.OPERATOR, "jwt"), Principal("grace", Role.ADMIN, "jwt")
    may_steer(operator, job(), role_for(job(), None))
    may_steer(admin, job(trigger_role="admin"), role_for(job(trigger_role="admin"), None))
    with pytest.raises(Refused, match="job 'close' needs the role admin; jwt:ada has operator") as refused:
        may_steer(operator, job(trigger_role="admin"), role_for(job(trigger_role="admin"), None))
    assert (refused.value.status, refused.value.code) == (403, "role_too_low")


def test_but_never_for_a_lower_one() -> None:
    with pytest.raises(Refused):
        may_steer(Principal("ada", Role.VIEWER, "jwt"), job(), role_for(job(), None))
    with pytest.raises(InvalidValue, match="'operator' or 'admin'"):
        job(trigger_role="viewer")


def test_a_role_of_a_newer_release_is_the_highest() -> None:
    newer = Job(name="close", id="1", declared='{"handler": "close", "trigger_role": "emperor"}')
    with pytest.raises(Refused):
        may_steer(Principal("ada", Role.OPERATOR, "jwt"), newer, role_for(newer, None))


# --- declarations and the matrix ----------------------------------------------------------------------------------


def an_admin(who: Annotated[Principal, Depends(needs(Role.ADMIN))]) -> str:
    return who.name


def test_what_a_route_declares() -> None:
    router = APIRouter(dependencies=[Depends(needs(Role.VIEWER))])

    @router.get("/highest")
    async def highest(name: Annotated[str, Depends(an_admin)]) -> str:
        return name

    @router.get("/_sys/x", dependencies=[Depends(sys_access)])
    async def below_sys() -> None: ...

    api = FastAPI(openapi_url=None)
    api.include_router(router)

    @api.get("/open")
    async def nothing_said() -> None: ...

    found = operations_without_check(api)
    assert found == {"/highest": (Role.ADMIN, False), "/_sys/x": (Role.VIEWER, True), "/open": (None, False)}


def operations_without_check(api: FastAPI) -> dict[str, tuple[Any, bool]]:
    return {str(route.path): (required_role(route), limited_to_sys(route)) for route in iter_route_contexts(api.routes)}


async def test_the_matrix_of_a_sound_application_is_empty(tmp_path: Path) -> None:
    api = tiny_api(Guard(settings()))
    found = operations(api, documented(api))
    assert len(found) == 8
    ways = cases(tmp_path)
    assert [finding for case in ways for finding in await mismatches(api, found, case)] == []
    assert len({case.name for case in ways}) == len(ways) >= 40


def test_a_route_without_a_declared_role_is_found() -> None:
    api = tiny_api(Guard(settings()))

    @api.get("/forgotten")
    async def forgotten() -> None: ...

    with pytest.raises(AssertionError, match="GET /forgotten declares no role"):
        operations(api, documented(api))


def test_a_document_that_says_something_else_is_found() -> None:
    api = tiny_api(Guard(settings()))
    document = documented(api)
    document["paths"]["/admin"]["get"]["x-required-role"] = "viewer"
    with pytest.raises(AssertionError, match="GET /admin needs admin, the document says viewer"):
        operations(api, document)
    del document["paths"]["/admin"]
    with pytest.raises(AssertionError, match="GET /admin is not in the document"):
        operations(api, document)
    document = documented(api)
    document["paths"]["/ghost"] = {"get": {}}
    with pytest.raises(AssertionError, match="no route for GET /ghost"):
        operations(api, document)


def test_routes_beside_the_interface_are_found() -> None:
    api = tiny_api(Guard(settings()))
    api.add_route("/beside", lambda request: None)
    with pytest.raises(AssertionError, match="/beside is no route of the interface"):
        operations(api, documented_only(api))
    assert operations(api, documented_only(api), unguarded=["/beside"])


def documented_only(api: FastAPI) -> dict[str, Any]:
    for route in api.routes:
        if extra := access_extra(route):
            route.openapi_extra = extra  # type: ignore[attr-defined]
    api.openapi_schema = None
    return api.openapi()


async def test_a_door_left_open_is_found(tmp_path: Path) -> None:
    """A route that declares admin in the document and lets viewers in."""
    api = tiny_api(Guard(settings()))
    found = [item for item in operations(api, documented(api)) if item.path == "/viewer"]
    wrong = [type(item)(item.method, item.path, Role.ADMIN, item.sys) for item in found]
    findings = [finding for case in cases(tmp_path) for finding in await mismatches(api, wrong, case)]
    assert "JWT of viewer: GET /viewer answered 200, expected 403" in findings
