"""One request as a route sees it: its principal, the engine, and its headers."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

import msgspec
from fastapi import Depends, Header, Query, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..core.commands.idempotency import Answer
from ..core.commands.steering import JobChanged, Steering
from ..core.render.entities import job_json, started_json
from ..core.rules.job_roles import role_for
from ..core.rules.secret_params import mask_document, union
from ..core.views.execution import Execution, row_of
from ..core.views.job import JobView, job_of, with_new_execution
from ..model.errors import ExecutionNotFound, JobNotFound, MainspringError
from ..model.execution import ExecutionRow, State
from ..model.job import Job
from ..model.values.reading import duration
from .access import Principal, Role, covers, guard_of, may_steer, needs
from .engine import Application, Engine
from .errors import Problem, problem_of, respond
from .room import Room
from .stream import Streams, closing

T = TypeVar("T")
R = TypeVar("R")

Work = Callable[[str | None], Awaitable[Answer]]
"""The work of a request; its argument is the id for the execution that it creates, if that is fixed."""

REPLAYED = {"Idempotent-Replay": "true"}

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[!-~]+$",
        description="A key of your choice: for 24 hours, the same key and request get the same answer.",
    ),
]
IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        pattern=r'^(\*|"[!#-+.-~-]{1,98}")$',
        examples=['"0a1b2c3d4e5f-7"'],
        description="The ETag of the resource as you read it; if it has changed since, nothing is done (412). Or *.",
    ),
]
TraceParent = Annotated[
    str | None, Header(alias="traceparent", max_length=200, description="W3C trace context; the execution joins it.")
]


class Call:
    def __init__(self, request: Request, principal: Principal, engine: Engine) -> None:
        self.request, self.principal, self.engine = request, principal, engine
        self.key: str | None = None
        self.seen: str | None = None
        self._steered: set[str] = set()  # the jobs that the principal was allowed to steer, and their handlers' own

    @property
    def by(self) -> str:
        """The principal's name for the audit."""
        return self.principal.actor

    @property
    def operates(self) -> bool:
        return self.principal.role.covers(Role.OPERATOR)

    @property
    def administers(self) -> bool:
        return self.principal.role.covers(Role.ADMIN)

    @property
    def application(self) -> Application:
        application: Application = self.request.app.state.application
        return application

    @property
    def steering(self) -> Steering:
        """Steering with the rights of the principal: a job can demand a higher role."""
        return self.engine.steering.checked(self.may_steer)

    def may_steer(self, job: Job, needed: Role) -> None:
        """Refuse a job that demands a higher role than the principal has."""
        may_steer(self.principal, job, needed)
        self._steered |= {job.name, job.spec.handler}

    @property
    def holder(self) -> str:
        """Who holds what this request keeps open: the principal, or the address where nobody logs in."""
        if self.principal.kind == "loopback":
            return guard_of(self.request).client(self.request).key
        return self.principal.actor

    def stream_holder(self) -> str:
        """Who holds the stream that this request opens, if there is room for one more."""
        streams: Streams = self.request.app.state.streams
        streams.check(self.holder)
        return self.holder

    @contextmanager
    def waiting(self, patience: float) -> Iterator[None]:
        """Count this request as one that waits, if it does; it is refused before it has done anything."""
        if patience <= 0:
            yield
            return
        waits: Room = self.request.app.state.waits
        waits.check(self.holder)
        with waits.holding(self.holder):
            yield

    async def steerable(self, name: str) -> JobView:
        """The job, if the principal may steer it."""
        view = await self.engine.queries.job(name)
        self.may_steer(job_of(view), view.required_role)
        return view

    async def may_steer_handler(self, name: str) -> None:
        """Refuse a handler whose own job demands a higher role: to pause it is to keep that job from running, and to
        change its template is to decide what jobs made from that will do."""
        if (own := await self.engine.creation.own_job(name)) is not None:
            self.may_steer(own, role_for(own, own))

    def rendered(self, view: JobView) -> dict[str, Any]:
        """The job as the principal may see it. Where requests give parameters as fields of their own, answers show them
        so too; a parameter never hides a field of the job."""
        fields = job_json(view, unmasked=covers(self.principal, view))
        return fields if self.application.settings.api_handler is None else {**fields["params"], **fields}

    def check(self, view: JobView) -> None:
        """Refuse if the job's version differs from the `If-Match` header."""
        if self.seen is not None and self.seen != view.tag:
            raise JobChanged(view.name, self.seen, view.tag)

    async def steer(self, command: Callable[[], Awaitable[JobView]]) -> Response:
        """A command on one job; the answer is the job as it is now."""

        async def work(_: str | None) -> Answer:
            view = await command()
            return json(self.rendered(view), headers=etag(view))

        return await self.once(work)

    async def once(self, work: Work) -> Response:
        """Do the work, or repeat the answer that it had under the same key before."""
        if self.key is None:
            return respond(await work(None))
        keys = self.engine.idempotency
        begun = await keys.begin(self.by, self.key, await self._fingerprint())
        if isinstance(begun, Answer):
            return respond(await self._replayed(begun))
        try:
            answer = await self._answer(work, begun.execution_id)
        except BaseException:
            await keys.forget(begun)
            raise
        await keys.finish(begun, msgspec.structs.replace(answer, steered=tuple(sorted(self._steered))))
        return respond(answer)

    async def _replayed(self, kept: Answer) -> Answer:
        """The kept answer, for a caller who may still steer the jobs that it is about. What became secret since is
        masked."""
        views = await self.engine.queries.named(kept.steered)
        for view in views:
            self.may_steer(job_of(view), view.required_role)
        secret = union(*(view.secret for view in views))
        for removed in set(kept.steered).difference(view.name for view in views):
            await self.may_steer_handler(removed)
            secret = union(secret, await self.engine.creation.secrets_of(removed))
        body = kept.body
        if secret and body:
            body = msgspec.json.encode(mask_document(msgspec.json.decode(body), secret)).decode()
        return msgspec.structs.replace(kept, body=body, headers=kept.headers | REPLAYED)

    async def _answer(self, work: Work, execution_id: str) -> Answer:
        """A refusal is an answer that is kept, too. Temporary errors are raised, and so is a role that is too low: it
        is judged anew with each request."""
        try:
            return await work(execution_id)
        except MainspringError as error:
            problem = problem_of(error)
            if problem.status >= 500 or problem.status == 403:
                raise
            return problem.answer

    async def _fingerprint(self) -> str:
        url, body = self.request.url, await self.request.body()
        return hashlib.sha256(f"{self.request.method} {url.path}?{url.query}\n".encode() + body).hexdigest()


PART = 256 * 1024
"""Bytes of a long answer that are sent at once."""
STEP = 0.005
"""Seconds for which one request may keep the others waiting."""


class Turns:
    """Long work in steps: `take` gives other requests their turn once a step has taken long enough."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    async def take(self) -> None:
        if time.perf_counter() - self._began > STEP:
            await asyncio.sleep(0)
            self._began = time.perf_counter()


async def in_turns(items: Iterable[T], render: Callable[[T], R]) -> list[R]:
    """Render many items without holding the event loop: a job takes half a millisecond when it is rendered for the
    first time, and more if its hours hide its next run."""
    await asyncio.sleep(0)  # they have just been read
    turns, done = Turns(), []
    for item in items:
        done.append(render(item))
        await turns.take()
    return done


async def items_in_turns(items: Iterable[T], render: Callable[[T], Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Render the items of a list."""
    return await in_turns(items, lambda item: encoded_item(render(item)))


def encoded_item(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item whose objects and lists are encoded: the garbage collector holds the event loop while it looks at each
    value of hundreds of large items."""
    return {
        name: msgspec.Raw(msgspec.json.encode(value)) if isinstance(value, dict | list | tuple) else value
        for name, value in item.items()
    }


class ListResponse(Response):
    """A page of a list, encoded and sent in parts: two hundred executions with large parameters are fifty megabytes of
    JSON. `fields` are the list and what belongs to the page."""

    media_type = "application/json"

    def __init__(self, fields: Mapping[str, Any]) -> None:
        super().__init__()
        self._fields = fields

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        parts = await self._encoded()  # all of it, before the status promises that it can be encoded
        if len(parts) == 1:
            self.headers["content-length"] = str(len(parts[0]))
        else:  # hiding the names of tokens changes the length of each part
            del self.headers["content-length"]
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        for number, part in enumerate(parts, 1):
            await send({"type": "http.response.body", "body": part, "more_body": number < len(parts)})
            await asyncio.sleep(0)  # a client that reads quickly would not let others have a turn

    async def _encoded(self) -> list[bytes]:
        await asyncio.sleep(0)  # the list has just been made
        turns, parts, part = Turns(), [], bytearray()
        for number, (name, value) in enumerate(self._fields.items()):
            part += (b"," if number else b"{") + msgspec.json.encode(name) + b":"
            if not isinstance(value, list):
                part += msgspec.json.encode(value)
                continue
            part += b"["
            for place, item in enumerate(value):
                part += (b"," if place else b"") + msgspec.json.encode(item)
                if len(part) > PART:
                    parts.append(bytes(part))
                    part.clear()
                await turns.take()
            part += b"]"
        return [*parts, bytes(part + b"}")]


def json(data: Any, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    return Answer(status, msgspec.json.encode(data).decode(), headers or {})


def etag(view: JobView) -> dict[str, str]:
    return {"ETag": f'"{view.tag}"'}


def read_tag(if_match: str | None) -> str | None:
    """The tag inside `If-Match`; `*` means any existing job, which is checked anyway."""
    return None if if_match is None or if_match == "*" else if_match[1:-1]


async def _viewing(request: Request, principal: Annotated[Principal, Depends(needs(Role.VIEWER))]) -> Call:
    return await _call(request, principal)


async def _operating(request: Request, principal: Annotated[Principal, Depends(needs(Role.OPERATOR))]) -> Call:
    return await _call(request, principal)


async def _administering(request: Request, principal: Annotated[Principal, Depends(needs(Role.ADMIN))]) -> Call:
    return await _call(request, principal)


async def _call(request: Request, principal: Principal) -> Call:
    return Call(request, principal, await request.app.state.application.engine())


Viewing = Annotated[Call, Depends(_viewing)]
"""For routes that read."""
Operating = Annotated[Call, Depends(_operating)]
Administering = Annotated[Call, Depends(_administering)]


async def _changing(call: Operating, if_match: IfMatch = None) -> Call:
    call.seen = read_tag(if_match)
    return call


async def _posting(call: Operating, key: IdempotencyKey = None) -> Call:
    call.key = key
    return call


async def _commanding(call: Annotated[Call, Depends(_posting)], if_match: IfMatch = None) -> Call:
    call.seen = read_tag(if_match)
    return call


async def _admin_posting(call: Administering, key: IdempotencyKey = None) -> Call:
    call.key = key
    return call


async def _admin_changing(call: Administering, if_match: IfMatch = None) -> Call:
    call.seen = read_tag(if_match)
    return call


async def _admin_commanding(call: Annotated[Call, Depends(_admin_posting)], if_match: IfMatch = None) -> Call:
    call.seen = read_tag(if_match)
    return call


Changing = Annotated[Call, Depends(_changing)]
"""For routes that change a job in place: `If-Match` is honoured."""
Posting = Annotated[Call, Depends(_posting)]
"""For routes that make something: `Idempotency-Key` is honoured."""
AdminPosting = Annotated[Call, Depends(_admin_posting)]
AdminChanging = Annotated[Call, Depends(_admin_changing)]
AdminCommanding = Annotated[Call, Depends(_admin_commanding)]
Commanding = Annotated[Call, Depends(_commanding)]
"""For commands on a job: both."""


LONGEST_WAIT = 300.0

Wait = Annotated[
    str | None,
    Query(
        max_length=32,
        description="How long to wait for the end, such as 30s; at most 5m.",
        examples=["30s"],
    ),
]


def seconds(wait: str | None, otherwise: float = 0.0) -> float:
    """How long to wait, at most `LONGEST_WAIT`."""
    return otherwise if wait is None else min(duration("wait", wait, allow_zero=True), LONGEST_WAIT)


async def ended(call: Call, made: Execution | ExecutionRow, patience: float) -> Execution:
    """The execution once it has ended, or as it is when the time is over or this process stops."""
    execution = made if isinstance(made, Execution) else Execution(made)
    if patience <= 0:
        return execution
    try:
        async with closing(call.request.app):
            return Execution(await call.engine.queries.wait(execution, patience))
    except TimeoutError:
        pass
    try:
        return Execution(await call.engine.queries.get(execution.id))
    except ExecutionNotFound:
        return execution


async def started(call: Call, view: JobView, made: ExecutionRow, patience: float) -> Answer:
    """The answer to a command that made an execution of this job, which was read before: 200 if the execution completed
    within the time, 500 if it ended in any other way, otherwise 202. All but the 500 have one form."""
    execution = await ended(call, made, patience)
    headers, waited = {"X-Execution-Id": execution.id}, patience > 0 and execution.state.final
    if waited and execution.state is not State.COMPLETED:
        details = {"execution_id": execution.id, "status": execution.state.value, "reason": execution.reason}
        message = execution.error or execution.reason or f"the execution is {execution.state}"
        return Problem(500, "job_failed", message.splitlines()[0][:1_000], details, headers).answer
    is_new = execution.state is State.PENDING
    shown = with_new_execution(view, row_of(execution)) if is_new else await _as_it_is(call, view)
    return json(started_json(shown, execution), 200 if waited else 202, headers)


async def _as_it_is(call: Call, view: JobView) -> JobView:
    try:
        return await call.engine.queries.job(view.name)
    except JobNotFound:
        return view  # removed since
