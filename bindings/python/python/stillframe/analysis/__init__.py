"""Analysis beside a running simulation: a reducer runs per version, and what it finds becomes a time series in a file.

    from stillframe import analysis

    analysis.run("melt", {"u.csv": analysis.Statistics("u"), "u-spectrum.npy": analysis.Spectrum("u")})

A *reducer* is anything that makes numbers and arrays, by name, of a snapshot: :class:`Statistics`, :class:`Histogram`,
:class:`Spectrum`, or a function of your own. A *series* is a file with a row per version (:class:`Series`). The same
reducers take plain numpy arrays by name, so that a program can have them compiled in, and find the same to the last bit.
"""

from ._blocks import Source, blocks
from ._reducers import Histogram, Reducer, Spectrum, Statistics
from ._run import run
from ._series import Series

__all__ = ["Histogram", "Reducer", "Series", "Source", "Spectrum", "Statistics", "blocks", "run"]
