"""What is known of numbers that come block by block: smallest and largest one, sum, mean and deviation."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

#: How large a deviation from the mean may be, and one divided by it how small, before its square is scaled: so far from the limits
#: of double precision that sums of squares do not reach them.
ROOM = 1e120


class Moments:
    """Sums over numbers that come block by block, merged so that nothing is lost where the mean is large."""

    def __init__(self) -> None:
        self.count = 0
        self.nans = 0
        self.least = math.inf
        self.most = -math.inf
        self.sum = 0.0
        self.mean = 0.0
        #: Sum of squares of the deviations from the mean, each divided by 2 to the ``exponent``.
        self.squares = 0.0
        #: 0 unless the squares would be too large for a number of double precision, or too small.
        self.exponent = 0

    def add(self, block: NDArray[np.float64]) -> None:
        """Takes in a block."""
        with np.errstate(invalid="ignore", over="ignore"):
            total = float(block.sum())
            if math.isnan(total):
                # There are NaNs, or infinities of both signs.
                missing = np.isnan(block)
                self.nans += int(missing.sum())
                block = block[~missing]
                total = float(block.sum())
            if not len(block):
                return
            least, most = float(block.min()), float(block.max())
            self.least, self.most = min(self.least, least), max(self.most, most)
            mean = np.float64(total) / len(block)
            if math.isinf(total) and math.isfinite(least) and math.isfinite(most):
                # Their sum is too large for a number, which their mean is not.
                mean = np.clip((block / len(block)).sum(), least, most)
            self._make_room(least, most, float(mean))
            scale = 2.0**-self.exponent
            deviations = block - mean if self.exponent == 0 else block * scale - mean * scale
            # Not a dot product, which may start threads: the other processors are the program's.
            squares = np.multiply(deviations, deviations, out=deviations).sum()
            before, self.count = self.count, self.count + len(block)
            # Before the first block there is no mean from which its own could be apart.
            apart = mean * scale - self.mean * scale if before else 0.0
            step = mean - self.mean
            # Chan, Golub and LeVeque's rule for two samples.
            share = len(block) / self.count
            if np.isfinite(step):
                self.mean = float(self.mean + step * share)
            else:
                self.mean = float(self.mean * (before / self.count) + mean * share)
            self.squares = float(self.squares + squares + apart * apart * (before * len(block) / self.count))
        self.sum += total

    def _make_room(self, least: float, most: float, mean: float) -> None:
        """Chooses an exponent with which the squares of the deviations of numbers between two ends, and of their mean from the mean
        so far, are neither too large nor too small."""
        # Halves, as differences may be too large themselves.
        least, most, mean = least / 2, most / 2, mean / 2
        widest = max(most - mean, mean - least, abs(mean - self.mean / 2) if self.count else 0.0)
        scaled = widest * 2.0**-self.exponent
        is_lost = scaled > ROOM or (scaled < 1 / ROOM and self.squares == 0)
        if is_lost and 0 < widest < math.inf:
            exponent = min(max(int(math.log2(widest)), -1000), 1000)
            if self.squares > 0:
                self.squares *= (2.0 ** (self.exponent - exponent)) ** 2
            self.exponent = exponent

    def row(self) -> dict[str, float | int]:
        """What was found."""
        none = self.count == 0
        return {
            "min": math.nan if none else self.least,
            "max": math.nan if none else self.most,
            "mean": math.nan if none else self.mean,
            "std": math.nan if none else math.sqrt(self.squares / self.count) * 2.0**self.exponent,
            "sum": self.sum,
            "nans": self.nans,
        }
