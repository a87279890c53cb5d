from django.db import models


class Order(models.Model):
    email = models.EmailField()
    item = models.CharField(max_length=100)
    receipt_sent = models.BooleanField(default=False)
