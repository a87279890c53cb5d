from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from .jobs import send_receipt
from .models import Order


@csrf_exempt
@transaction.atomic
def create_order(request: HttpRequest) -> JsonResponse:
    """The order and its receipt are committed together, or not at all."""
    order = Order.objects.create(email=request.POST["email"], item=request.POST["item"])
    send_receipt.sync.enqueue(order_id=order.pk)
    if not order.item:
        raise ValueError("an order needs an item")
    return JsonResponse({"order": order.pk}, status=201)


@csrf_exempt
async def create_order_async(request: HttpRequest) -> JsonResponse:
    order = await Order.objects.acreate(email=request.POST["email"], item=request.POST["item"])
    execution = await send_receipt.options(start_at="10m").enqueue(order_id=order.pk)
    return JsonResponse({"order": order.pk, "receipt": execution.id}, status=201)
