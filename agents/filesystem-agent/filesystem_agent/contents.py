"""Reading open descriptors: whole and bounded, in part, from the end, and hashed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator

from filesystem_agent.errors import refusal

N_BLOCK_BYTES = 1 << 18


def read_whole(fd: int, max_bytes: int, shown: str) -> bytes:
    """Return everything from the start of a file.

    Raises:
        ToolError: there is more than `max_bytes`, whatever the size the file claims.
    """
    blocks: list[bytes] = []
    n_left = max_bytes + 1
    offset = 0
    while n_left > 0 and (block := os.pread(fd, min(N_BLOCK_BYTES, n_left), offset)):
        blocks.append(block)
        offset += len(block)
        n_left -= len(block)
    if n_left == 0:
        raise refusal(f"file is larger than {max_bytes} bytes", shown, "view_file and tail_file show parts of it")
    return b"".join(blocks)


def read_part(fd: int, offset: int, n_bytes: int) -> bytes:
    """Return up to `n_bytes` from `offset`; fewer only at the end of the file."""
    blocks: list[bytes] = []
    while n_bytes > 0 and (block := os.pread(fd, n_bytes, offset)):
        blocks.append(block)
        offset += len(block)
        n_bytes -= len(block)
    return b"".join(blocks)


def read_blocks(fd: int, n_block_bytes: int = N_BLOCK_BYTES) -> Iterator[bytes]:
    """Yield a file in blocks, as it is while it is read."""
    offset = 0
    while block := os.pread(fd, n_block_bytes, offset):
        yield block
        offset += len(block)


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of bytes, in lower-case hex."""
    return hashlib.sha256(data).hexdigest()


def read_last_lines(fd: int, n_lines: int, max_bytes: int) -> tuple[bytes, bool]:
    """Return the bytes of the last lines, and whether `max_bytes` cut them short.

    Reads backwards block by block, so that the cost is that of the lines asked for, not of the file.
    """
    end = os.fstat(fd).st_size
    start = end
    blocks: list[bytes] = []
    n_found = 0
    while start > 0 and end - start < max_bytes:
        n_bytes = min(N_BLOCK_BYTES, start, max_bytes - (end - start))
        block = read_part(fd, start - n_bytes, n_bytes)
        if len(block) < n_bytes:
            break
        start -= n_bytes
        n_found += block.count(b"\n")
        blocks.append(block)
        if n_found > n_lines:
            break
    data = b"".join(reversed(blocks))
    cut = _start_of_last_lines(data, n_lines)
    if cut is not None:
        return data[cut:], False
    if start == 0:
        return data, False
    n_broken = next((index for index, byte in enumerate(data[:4]) if byte & 0xC0 != 0x80), 0)
    return data[n_broken:], True


def _start_of_last_lines(data: bytes, n_lines: int) -> int | None:
    """Return where the last `n_lines` lines start, or `None` where `data` has not more lines than that."""
    position = len(data) - 1 if data.endswith(b"\n") else len(data)
    for _ in range(n_lines):
        position = data.rfind(b"\n", 0, position)
        if position < 0:
            return None
    return position + 1
