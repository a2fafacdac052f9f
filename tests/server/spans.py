"""The spans and the log records of this process, for the tests that read them: a provider can be set once."""

from __future__ import annotations

from opentelemetry import _logs, trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


def span_exporter() -> InMemorySpanExporter:
    """Return an exporter that receives every span of this process from now on, whoever else reads them."""
    exporter = InMemorySpanExporter()
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return exporter


def log_exporter() -> InMemoryLogRecordExporter:
    """Return an exporter that receives every log record of this process from now on."""
    exporter = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call] # the SDK gives it no types
    provider = _logs.get_logger_provider()
    if not isinstance(provider, LoggerProvider):
        provider = LoggerProvider()
        _logs.set_logger_provider(provider)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    return exporter
