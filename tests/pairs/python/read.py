"""A reader of an object in Python: read.py DIR OBJECT VERSION. See ../objects.py for what it has to print."""

import sys

import stillframe as sf

#: What is read, each in a layout of its own, in which the last index is the fastest.
VIEWS = {
    "turned": "{ var v [y:10,x:12] = grid[x,y] }",
    "column": "{ var v [x] = grid[11-x,7] }",
    "ghosts": "view clipped { var v [x:14,y:3] = grid[x-1,y+8] }",
    "cells": "{ var v [i:20] = cells[i+5] }",
}

directory, name, version = sys.argv[1], sys.argv[2], int(sys.argv[3])
obj = sf.object(name, wait=30, dir=directory)


def show(what, numbers):
    print(what, *(int(number) for number in numbers))


for what, text in VIEWS.items():
    with obj.read(text) as fragment:
        fragment.reattach(version, timeout=300)
        elements = fragment.arrays["v"].ravel().tolist()
        show(what, (number for element in elements for number in element) if what == "cells" else elements)
    if what == "turned":
        # This one by a slice.
        show("coarse", obj["grid", version][::4, ::3].ravel())
