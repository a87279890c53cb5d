"""For tests of your own jobs: `harness(app)` runs them on a store in memory and a clock that the test moves.

```python
from mainspring.testing import harness
from shop.jobs import app

def test_the_nightly_report() -> None:
    with harness(app, start="2026-03-01T00:00Z") as kit:
        kit.advance("1d")
        kit.assert_ran("nightly-report", at="2026-03-01T02:00Z")
```
"""

from .clock import FakeClock
from .harness import harness
from .kit import BlockingKit, Kit

__all__ = ["BlockingKit", "FakeClock", "Kit", "harness"]
