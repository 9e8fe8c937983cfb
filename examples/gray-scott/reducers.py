"""What is made of a version: statistics of both substances, and of v the histogram and the power spectrum."""

from pathlib import Path

from stillframe import analysis


def of():
    """Files, and what goes into each."""
    return {
        "statistics.csv": analysis.Statistics("u", "v"),
        "histogram.npy": analysis.Histogram("v", bins=64, range=(0, 0.5)),
        "spectrum.npy": analysis.Spectrum("v"),
    }


def open_all(folder):
    """The same as open series, for a program that adds to them itself."""
    return [analysis.Series(Path(folder) / name, reducer) for name, reducer in of().items()]
