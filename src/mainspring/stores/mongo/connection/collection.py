"""The only way from the store to the driver: every error is one of ours, reads are repeated and come as lists."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeVar

from pymongo import DeleteMany, DeleteOne, IndexModel, InsertOne, UpdateMany, UpdateOne
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.results import BulkWriteResult, DeleteResult, UpdateResult

from .errors import Refused, answered, repeated

T = TypeVar("T")
Document = dict[str, Any]
Change = Mapping[str, Any] | Sequence[Mapping[str, Any]]
Write = UpdateOne | UpdateMany | DeleteOne | DeleteMany | InsertOne[Document]


class Collection:
    """A unique index that refuses a write raises `Refused`, except where a method says otherwise."""

    def __init__(self, driver: AsyncCollection[Document], database: str) -> None:
        self.driver, self._database = driver, database
        self.name = driver.name

    async def _answer(self, call: Awaitable[T]) -> T:
        return await answered(self._database, call)

    # --- reads --------------------------------------------------------------------------------------------------

    async def find(
        self, wanted: Document | None = None, fields: Document | None = None, **options: Any
    ) -> list[Document]:
        return await repeated(lambda: self._answer(self.driver.find(wanted, fields, **options).to_list()))

    async def find_one(self, wanted: Document, fields: Document | None = None, **options: Any) -> Document | None:
        return await repeated(lambda: self._answer(self.driver.find_one(wanted, fields, **options)))

    async def aggregate(self, pipeline: Sequence[Document], **options: Any) -> list[Document]:
        async def read() -> list[Document]:
            return await (await self.driver.aggregate(pipeline, **options)).to_list()

        return await repeated(lambda: self._answer(read()))

    async def count_documents(self, wanted: Document, **options: Any) -> int:
        return await repeated(lambda: self._answer(self.driver.count_documents(wanted, **options)))

    async def count_keys(self, wanted: Document, hint: str, limit: int = 0) -> int:
        """The number of keys of an index, no further than the limit (0: none); twice as fast as `count_documents`."""
        command = {"count": self.name, "query": wanted, "hint": hint, "limit": limit}
        answer = await repeated(lambda: self._answer(self.driver.database.command(command)))
        return int(answer["n"])

    async def distinct(self, field: str) -> list[Any]:
        return await repeated(lambda: self._answer(self.driver.distinct(field)))

    # --- writes -------------------------------------------------------------------------------------------------

    async def insert_missing(self, documents: Sequence[Document]) -> dict[int, str]:
        """As `insert`, repeated until an answer comes. Documents of the first try count as refused in the second."""
        return await repeated(lambda: self.insert(documents)) if documents else {}

    async def insert(self, documents: Sequence[Document]) -> dict[int, str]:
        """Insert the documents that no unique index refuses. Returns the refused ones: position to the first field of
        the index."""
        try:
            await self._answer(self.driver.insert_many(documents, ordered=False))
        except Refused as refusal:
            return dict(refusal.fields)
        return {}

    async def update_one(self, wanted: Document, change: Change, **options: Any) -> UpdateResult:
        return await self._answer(self.driver.update_one(wanted, change, **options))

    async def update_many(self, wanted: Document, change: Change) -> UpdateResult:
        return await self._answer(self.driver.update_many(wanted, change))

    async def find_one_and_update(self, wanted: Document, change: Change, **options: Any) -> Document | None:
        return await self._answer(self.driver.find_one_and_update(wanted, change, **options))

    async def bulk_write(self, writes: Sequence[Write]) -> BulkWriteResult:
        """In any order."""
        return await self._answer(self.driver.bulk_write(writes, ordered=False))

    async def delete_one(self, wanted: Document) -> DeleteResult:
        return await self._answer(self.driver.delete_one(wanted))

    async def delete_many(self, wanted: Document) -> DeleteResult:
        return await self._answer(self.driver.delete_many(wanted))

    # --- the collection itself ----------------------------------------------------------------------------------

    async def create_indexes(self, models: Sequence[IndexModel]) -> None:
        """Those that exist already are left alone, so an election in the middle costs nothing but time."""
        await repeated(lambda: self._answer(self.driver.create_indexes(models)))

    async def indexes(self) -> dict[str, Document]:
        """Name to description."""

        async def read() -> dict[str, Document]:
            return {index["name"]: dict(index) for index in await (await self.driver.list_indexes()).to_list()}

        return await repeated(lambda: self._answer(read()))

    async def watch(self, pipeline: Sequence[Document], **options: Any) -> Any:
        return await self._answer(self.driver.watch(pipeline, **options))
