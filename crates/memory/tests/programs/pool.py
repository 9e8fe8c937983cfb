"""Processes that are forked, each of which writes all of what it has from its parent."""

import multiprocessing

data = bytearray(b"\1" * (20 << 20))


def work(number):
    for at in range(0, len(data), 4096):
        data[at] = number
    return sum(data[at] for at in range(0, len(data), 4096)) == number * (len(data) // 4096)


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    with multiprocessing.Pool(3) as pool:
        assert all(pool.map(work, range(1, 7)))
    assert data[0] == 1 and data[-1] == 1
    print("fine")
