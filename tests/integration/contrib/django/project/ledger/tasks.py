from django.conf import settings

from .models import Entry

if settings.HAS_TASKS:
    from django.tasks import task
else:
    from django_tasks import task


@task()
def add_up(*numbers, start=0):
    return sum(numbers, start)


@task(queue_name="mail", priority=5)
async def create(name):
    entry = await Entry.objects.acreate(name=name)
    return {"pk": entry.pk}


@task(takes_context=True)
def fails_once(context, text):
    if context.attempt == 1:
        raise LookupError(text)
    return [context.attempt, text]


ANSWERS = []


@task()
def raises_answers():
    """On its last attempt it asks for another try, as a worker that stops does."""
    if ANSWERS:
        raise ANSWERS.pop(0)


@task()
def always_fails():
    raise LookupError("never")
