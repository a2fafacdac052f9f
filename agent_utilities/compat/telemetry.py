"""OpenTelemetry's logs, whose module is private."""

from opentelemetry._logs import LogRecord, SeverityNumber, get_logger, get_logger_provider

from agent_utilities.compat import Part

PARTS = (
    Part(
        "opentelemetry._logs:get_logger",
        "the record of calls may go to OpenTelemetry's logs, whose API is stable, and whose module has a private name",
        "the module is public",
    ),
)
__all__ = ["PARTS", "LogRecord", "SeverityNumber", "get_logger", "get_logger_provider"]
