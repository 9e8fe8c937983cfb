#!/usr/bin/env python3
"""Analyses every version of a running simulation, in a process of its own, until it ends.

observe.py results        may be killed and started again: it goes on where it was
"""

import argparse
from pathlib import Path

import reducers
from stillframe import analysis


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--name", default="gray-scott", help="of the region")
    parser.add_argument("--wait", type=float, default=60.0, help="seconds to wait for it")
    args = parser.parse_args()
    series = {args.folder / name: reducer for name, reducer in reducers.of().items()}
    count = analysis.run(args.name, series, every=True, wait=args.wait, polite=False)
    print(f"{count} versions")


if __name__ == "__main__":
    main()
