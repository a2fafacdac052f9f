"""The process's standard input, such that a signal can end it."""

from __future__ import annotations

import os
import select
import threading

_PIECE_BYTES = 64 * 1024


class EndableStdin:
    """Stands between the process's standard input and whoever reads that, from now on.

    A thread that waits for input can't be cancelled: a server that is told to stop would wait with it until its client
    closes the pipe. So the input comes through a pipe of our own, which is closed when it ends, or when it is to end:
    the server then stops as it does where its client has gone.
    """

    def __init__(self) -> None:
        self.ended_by: int | None = None
        """The signal that ended it first, or None."""
        self._source = os.dup(0)
        reads, self._sink = os.pipe()
        os.dup2(reads, 0)
        os.close(reads)
        os.set_blocking(self._sink, False)
        self._woken, self._wake = os.pipe()
        threading.Thread(target=self._hand_on, name="stdin", daemon=True).start()

    def end(self, number: int) -> None:
        """End it, whatever else comes; a signal handler may call it, and call it again.

        Args:
            number: the signal's.
        """
        self.ended_by = self.ended_by or number
        os.write(self._wake, b".")

    def _hand_on(self) -> None:
        try:
            while self._is_ready([self._source], []) and (piece := os.read(self._source, _PIECE_BYTES)):
                while piece:
                    if not self._is_ready([], [self._sink]):
                        return
                    piece = piece[os.write(self._sink, piece) :]
        except OSError:
            pass  # there is no input, or nobody reads it any more: that is its end
        finally:
            os.close(self._sink)

    def _is_ready(self, reads: list[int], writes: list[int]) -> bool:
        """Wait until a pipe can be read or written; False where all is to end."""
        readable, _, _ = select.select([self._woken, *reads], writes, [])
        return self._woken not in readable
