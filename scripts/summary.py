#!/usr/bin/env python3
"""Sums up a run of the tests of cargo: summary.py JUNIT-FILE

Prints the ten slowest tests, and what tests left out and why: each says so in a line that begins with `skipped:`.
"""

import re
import sys
import xml.etree.ElementTree as xml
from collections import Counter

SLOWEST = 10


def skips(case):
    """What a test says that it left out."""
    for stream in ("system-out", "system-err"):
        for line in (case.findtext(stream) or "").splitlines():
            if found := re.match(r"\W*skipped: *(.*)", line, re.IGNORECASE):
                yield found[1]


def main():
    if len(sys.argv) != 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    cases = list(xml.parse(sys.argv[1]).getroot().iter("testcase"))
    left_out = Counter()
    for case in cases:
        left_out.update({f"{case.get('classname')} {case.get('name')}: {why}" for why in skips(case)})
    print(f"the {SLOWEST} slowest of {len(cases)} tests:")
    for case in sorted(cases, key=lambda case: -float(case.get("time", 0)))[:SLOWEST]:
        print(f"  {float(case.get('time', 0)):7.1f} s  {case.get('classname')} {case.get('name')}")
    print(f"SKIPPED in whole or in part: {len(left_out)}")
    for line in sorted(left_out):
        print(f"  skipped: {line}")


if __name__ == "__main__":
    main()
