"""The jobs of this app. Mainspring imports every `jobs.py` of an installed app."""

from django.core.mail import send_mail

from mainspring.contrib.django import app

from .models import Order


@app.job("send-receipt", max_attempts=5)
def send_receipt(order_id: int) -> None:
    order = Order.objects.get(pk=order_id)
    send_mail("Your order", f"Thank you for ordering {order.item}.", None, [order.email])
    Order.objects.filter(pk=order_id).update(receipt_sent=True)


@app.job("count-unsent", cron="0 3 * * *")
async def count_unsent() -> int:
    return await Order.objects.filter(receipt_sent=False).acount()
