"""Words that users have for each tool and its text has not: search hints, for rankers and never for the model."""

from __future__ import annotations

HINTS: dict[str, str] = {
    "list_logs": "which logs are there, find the log of a service, how big or large the log files are",
    "tail_log": "latest entries, what is happening right now, most recent lines",
    "search_logs": "which lines mention or say a message, request id, order number, user, client or IP; stack traces",
    "summarize_errors": "what goes wrong most, frequent failures and crashes, top problems, root causes",
    "count_by_level": "how many warnings, errors or failed requests (500) there were",
    "log_histogram": "when did it start, spike, peak, traffic per minute or hour, trend",
    "find_slow_requests": "latency, response time, timeouts, performance, slowest endpoints, why something takes long",
    "compare_windows": "what broke or changed after a release, deploy or upgrade; before and after; regressions",
    "rotate_log": "archive, compress or truncate a log that is too big or fills the disk, free space",
    "delete_log": "remove, erase or clean up old logs for good",
}
