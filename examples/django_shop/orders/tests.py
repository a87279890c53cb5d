from django.core import mail
from django.test import TestCase

from mainspring.contrib.django.testing import harness

from .models import Order


class OrderTests(TestCase):
    def test_an_order_sends_its_receipt(self) -> None:
        with harness() as kit:
            answer = self.client.post("/orders/", {"email": "ada@example.com", "item": "tea"})
            order = Order.objects.get()
            assert answer.json() == {"order": order.pk}
            kit.assert_enqueued("send-receipt", {"order_id": order.pk}, count=1)
            kit.run_until_idle()
        order.refresh_from_db()
        assert order.receipt_sent
        assert [message.to for message in mail.outbox] == [["ada@example.com"]]

    def test_an_order_that_is_rolled_back_sends_nothing(self) -> None:
        self.client.raise_request_exception = False
        with harness() as kit:
            answer = self.client.post("/orders/", {"email": "ada@example.com", "item": ""})
            assert (answer.status_code, Order.objects.count()) == (500, 0)
            kit.assert_not_enqueued("send-receipt")

    async def test_an_async_view_sends_the_receipt_later(self) -> None:
        async with harness() as kit:
            await self.async_client.post("/orders/later/", {"email": "ada@example.com", "item": "tea"})
            kit.assert_enqueued("send-receipt", start_at="10m")
            await kit.advance("11m")
        assert (await Order.objects.aget()).receipt_sent

    def test_the_nightly_count(self) -> None:
        Order.objects.create(email="ada@example.com", item="tea")
        with harness(start="2026-03-01T00:00") as kit:
            kit.advance("4h")
            kit.assert_ran("count-unsent", at="2026-03-01T03:00", result=1)
