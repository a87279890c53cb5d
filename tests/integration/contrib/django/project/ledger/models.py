from django.db import models


class Entry(models.Model):
    name = models.CharField(max_length=100)
    count = models.IntegerField(default=0)
