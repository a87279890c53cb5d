"""The cron grammar, its errors, its words, and croniter as an oracle where no clock ever changes."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from croniter import croniter
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.model.errors import InvalidValue
from mainspring.model.triggers import cron
from mainspring.model.triggers.cron import CronRule
from tests.time.expressions import expressions as random_expressions

START = datetime(2026, 1, 1, tzinfo=UTC)


def first_ticks(expression, count=3, start=START, **options):
    tick, found = start, []
    for _ in range(count):
        tick = cron(expression, **options).next_after(tick)
        found.append(tick.strftime("%Y-%m-%d %H:%M:%S"))
    return found


@pytest.mark.req("TIM-2")
@pytest.mark.parametrize(
    ("expression", "ticks"),
    [
        ("0 30 3 * * *", ["2026-01-01 03:30:00", "2026-01-02 03:30:00"]),
        ("30 3 * * *", ["2026-01-01 03:30:00", "2026-01-02 03:30:00"]),
        ("*/20 * * * * *", ["2026-01-01 00:00:20", "2026-01-01 00:00:40"]),
        ("0 0 L * *", ["2026-01-31 00:00:00", "2026-02-28 00:00:00"]),
        ("0 0 LW * *", ["2026-01-30 00:00:00", "2026-02-27 00:00:00"]),
        ("0 0 * * 5L", ["2026-01-30 00:00:00", "2026-02-27 00:00:00"]),
        ("0 0 * * friL", ["2026-01-30 00:00:00", "2026-02-27 00:00:00"]),
        ("0 0 * * MON#2", ["2026-01-12 00:00:00", "2026-02-09 00:00:00"]),
        ("0 0 * * 7", ["2026-01-04 00:00:00", "2026-01-11 00:00:00"]),
        ("0 0 * * sat-sun", ["2026-01-03 00:00:00", "2026-01-04 00:00:00"]),
        ("0 0 * * sun-sun", ["2026-01-04 00:00:00", "2026-01-11 00:00:00"]),
        ("0 0 * * 0-0", ["2026-01-04 00:00:00", "2026-01-11 00:00:00"]),
        ("0 0 * * 7L", ["2026-01-25 00:00:00", "2026-02-22 00:00:00"]),
        ("0 0 * * SUN#1", ["2026-01-04 00:00:00", "2026-02-01 00:00:00"]),
        ("0 0 L,1 * *", ["2026-01-31 00:00:00", "2026-02-01 00:00:00"]),
        ("15 30 12 * jan-feb mon", ["2026-01-05 12:30:15", "2026-01-12 12:30:15"]),
        ("0 0 1 feb,APR *", ["2026-02-01 00:00:00", "2026-04-01 00:00:00"]),
        ("5/20 0 * * *", ["2026-01-01 00:05:00", "2026-01-01 00:25:00"]),
        ("5-5/2 0 * * *", ["2026-01-01 00:05:00", "2026-01-02 00:05:00"]),
        ("0 0 13 * 5", ["2026-01-02 00:00:00", "2026-01-09 00:00:00"]),
        ("0 0 ? * 1", ["2026-01-05 00:00:00", "2026-01-12 00:00:00"]),
        ("0 */24 * * *", ["2026-01-02 00:00:00", "2026-01-03 00:00:00"]),
        ("@hourly", ["2026-01-01 01:00:00", "2026-01-01 02:00:00"]),
        ("@Daily", ["2026-01-02 00:00:00", "2026-01-03 00:00:00"]),
        ("@weekly", ["2026-01-04 00:00:00", "2026-01-11 00:00:00"]),
        ("@monthly", ["2026-02-01 00:00:00", "2026-03-01 00:00:00"]),
        ("@yearly", ["2027-01-01 00:00:00", "2028-01-01 00:00:00"]),
        ("0 0 29 2 *", ["2028-02-29 00:00:00", "2032-02-29 00:00:00"]),
        ("0 0 * 2 MON#5", ["2044-02-29 00:00:00", "2072-02-29 00:00:00"]),
    ],
)
def test_grammar(expression, ticks):
    assert first_ticks(expression, len(ticks)) == ticks


@pytest.mark.req("REG-11", "TIM-2")
@pytest.mark.parametrize(
    ("expression", "field", "value"),
    [
        ("0 25 * * *", "cron hour", "25"),
        ("60 * * * *", "cron minute", "60"),
        ("60 * * * * *", "cron second", "60"),
        ("* * 0 * *", "cron day of month", "0"),
        ("* * 32 * *", "cron day of month", "32"),
        ("* * * 13 *", "cron month", "13"),
        ("* * * foo *", "cron month", "foo"),
        ("* * * * 8", "cron day of week", "8"),
        ("* * * * 1#6", "cron day of week", "1#6"),
        ("* * * * L", "cron day of week", "L"),
        ("* * 15W * *", "cron day of month", "15W"),
        ("* * L-3 * *", "cron day of month", "L-3"),
        ("0 22-2 * * *", "cron hour", "22-2"),
        ("*/0 * * * *", "cron minute", "*/0"),
        ("*/61 * * * *", "cron minute", "*/61"),
        ("1,,2 * * * *", "cron minute", ""),
        ("*-5 * * * *", "cron minute", "*-5"),
        ("? * * * *", "cron minute", "?"),
        ("1/2/3 * * * *", "cron minute", "1/2/3"),
        ("0000001 * * * *", "cron minute", "0000001"),
        ("0 0 31 2 *", "cron day of month", "31"),
        ("0 0 30 2 *", "cron day of month", "30"),
        ("0 0 31 4,6 *", "cron day of month", "31"),
        ("0 0 */15 2 MON#5", "cron", "0 0 */15 2 MON#5"),
        ("* * * *", "cron", "* * * *"),
        ("0 0 2 * * * 2026", "cron", "0 0 2 * * * 2026"),
        ("@every 30m", "cron", "@every 30m"),
        ("@reboot", "cron", "@reboot"),
        ("", "cron", ""),
        (None, "cron", None),
        (5, "cron", 5),
    ],
)
def test_errors_name_the_field(expression, field, value):
    with pytest.raises(InvalidValue) as caught:
        cron(expression)
    assert (caught.value.field, caught.value.value) == (field, value)
    assert caught.value.allowed


@pytest.mark.parametrize(
    ("expression", "remedy"),
    [
        ("@every 30m", "every(minutes=30)"),
        ("0 0 2 * * * 2026", "seventh field"),
        ("0 22-2 * * *", "22-23,0-2"),
        ("0 0 * * fri-mon", "5-7,0-1"),
        ("0 0 * nov-feb *", "11-12,1-2"),
        ("*/90 * * * *", "every()"),
        ("0 0 31 2 *", "never fires"),
    ],
)
def test_errors_carry_a_remedy(expression, remedy):
    with pytest.raises(InvalidValue) as caught:
        cron(expression)
    assert remedy in caught.value.remedy


@given(st.text(alphabet="0123456789*/,-LW#? @adyilFRI", max_size=30))
def test_any_text_is_an_expression_or_a_clear_error(text):
    field = "cron"
    try:
        assert cron(text).next_after(START) is not None
    except InvalidValue as error:
        field = error.field
    assert field.startswith("cron")


@pytest.mark.req("TIM-2")
@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("0 0 2 * * *", "At 02:00"),
        ("0 14 * * *", "At 14:00"),
        ("30 0 2 * * *", "At 02:00:30"),
        ("*/5 * * * *", "Every 5 minutes"),
        ("0 0 LW * *", "At 00:00, on the last weekday of the month"),
        ("0 0 * * 1#2", "At 00:00, on the second Monday of the month"),
        ("0 0 * * 0-0", "At 00:00, only on Sunday"),
        ("0 0 13 * 5", "At 00:00, on day 13 of the month or on Friday"),
        ("0 0 13 * mon-fri", "At 00:00, on day 13 of the month or Monday through Friday"),
        ("0 0 */2 * 1", "At 00:00, every 2 days, but only on Monday"),
        (
            "0 0 */7 3 5L",
            "At 00:00, on day 1, 8, 15, 22, and 29 of the month, but only on the last Friday of the month, "
            "only in March",
        ),
        ("0 0 L,15 * *", "At 00:00, on day 15 of the month or on the last day of the month"),
        ("0 0 * * 1,3L", "At 00:00, on Monday or on the last Wednesday of the month"),
        ("0 22 * * 1/2", "At 22:00, only on Monday, Wednesday, Friday, and Sunday"),
        ("0 0 1 1/5 *", "At 00:00, on day 1 of the month, only in January, June, and November"),
        ("*/25 * * * *", "At 0, 25, and 50 minutes past the hour"),
        ("0/25 * * * *", "At 0, 25, and 50 minutes past the hour"),
        ("28,5/20 * * * *", "At 5, 25, 28, and 45 minutes past the hour"),
        ("* 2,3 * * *", "Every minute, in the hours of 02:00 and 03:00"),
        ("5,10 2 * * *", "At 5 and 10 minutes past the hour, in the hour of 02:00"),
        ("0 0 * * *", "At 00:00"),
    ],
)
def test_words(expression, words):
    assert cron(expression).describe() == words


@pytest.mark.req("TIM-2")
def test_every_expression_has_words():
    for expression in random_expressions():
        found = cron(expression).describe()
        assert not found.startswith("Cron ")
        assert not re.search(r"  |, ,|,$|\b(L|LW)\b", found), (expression, found)


def test_words_name_the_zone():
    assert cron("0 2 * * *", tz="Europe/Istanbul").describe() == "At 02:00 (Europe/Istanbul)"


def test_words_do_not_follow_the_machine_language(monkeypatch):
    for variable in ("LANG", "LC_ALL", "LANGUAGE"):
        monkeypatch.setenv(variable, "de_DE.UTF-8")
    assert cron("0 2 * * 1").describe() == "At 02:00, only on Monday"


def test_a_machine_without_a_language_has_words_too(monkeypatch):
    """As in containers: the library warns there unless it is told which language to use."""
    monkeypatch.setattr("locale.getlocale", lambda *_: (None, None))
    assert cron("7 2 * * 1").describe() == "At 02:07, only on Monday"


def test_expression_is_what_was_written():
    assert cron("  30   2 * * mon ").expression() == "30 2 * * mon"
    assert cron("@hourly").expression() == "0 * * * *"


@pytest.mark.parametrize("options", [{"gap": "later"}, {"overlap": "third"}, {"tz": "Nowhere"}, {"gap": None}])
@pytest.mark.req("REG-11")
def test_bad_options(options):
    with pytest.raises(InvalidValue):
        cron("0 2 * * *", **options)


# ------------------------------------------------------------------ against croniter, in UTC


def _list_of(low, high):
    number = st.integers(low, high)
    span = (
        st.tuples(number, number)
        .map(lambda pair: f"{min(pair)}-{max(pair)}")
        .filter(lambda s: len(set(s.split("-"))) > 1)
    )
    term = st.one_of(number.map(str), span, st.tuples(span, st.integers(1, 7)).map(lambda p: f"{p[0]}/{p[1]}"))
    return st.one_of(
        st.just("*"), st.integers(2, 7).map("*/{}".format), st.lists(term, min_size=1, max_size=3).map(",".join)
    )


minutes, hours, months = _list_of(0, 59), _list_of(0, 23), _list_of(1, 12)
days = st.one_of(st.tuples(_list_of(1, 28), st.just("*")), st.tuples(st.just("*"), _list_of(0, 6)))
instants = st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1)).map(lambda at: at.replace(tzinfo=UTC))


@st.composite
def expressions(draw):
    day, weekday = draw(days)
    return f"{draw(minutes)} {draw(hours)} {day} {draw(months)} {weekday}"


@given(expressions(), instants)
@pytest.mark.req("TIM-2")
def test_next_agrees_with_croniter(expression, at):
    oracle = croniter(expression, at)
    tick = at
    for _ in range(3):
        tick = cron(expression).next_after(tick)
        assert tick == oracle.get_next(datetime)


@given(expressions(), instants)
@pytest.mark.req("TIM-2")
def test_previous_agrees_with_croniter(expression, at):
    tick = cron(expression).previous(at - timedelta(microseconds=1))
    assert tick == croniter(expression, at).get_prev(datetime)


@given(st.sampled_from(["*/7", "10,40", "5-9"]), expressions(), instants)
@settings(max_examples=50)
def test_walking_both_ways_meets(seconds, expression, at):
    rule = CronRule(f"{seconds} {expression}")
    local = at.replace(tzinfo=None)
    ahead = [local := rule.after(local) for _ in range(5)]
    assert all(a < b for a, b in pairwise(ahead))
    for earlier, later in pairwise(ahead):
        assert rule.until(later) == later
        assert rule.until(later - timedelta(seconds=1)) == earlier
