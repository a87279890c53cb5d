"""A process of its own that has set up OpenTelemetry, as applications do, and nothing else: `traced_node.py URL FILE`.

Its spans go to the file, one JSON object a line.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from mainspring import JobContext, Mainspring

URL, FILE = sys.argv[1:]


class ToFile(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with open(FILE, "a") as file:
            for span in spans:
                file.write(json.dumps(plain(span)) + "\n")
        return SpanExportResult.SUCCESS


def plain(span: ReadableSpan) -> dict[str, object]:
    return {
        "name": span.name,
        "kind": span.kind.name,
        "trace": span.context.trace_id,
        "id": span.context.span_id,
        "parent": span.parent and span.parent.span_id,
        "links": [link.context.span_id for link in span.links],
    }


provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ToFile()))
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("the application")
app = Mainspring(URL)


@app.job("async")
async def work(ctx: JobContext) -> None:
    with tracer.start_as_current_span("own"):
        pass


@app.job("plain")
def plain_work(ctx: JobContext) -> None:
    with tracer.start_as_current_span("own"):
        pass


if __name__ == "__main__":
    app.run(log_level="WARNING")
