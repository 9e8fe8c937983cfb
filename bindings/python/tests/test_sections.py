"""Views with gaps, and numbers that versions show with fewer bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stillframe as sf


def views(u: Any) -> list[Any]:
    return [
        u[1:-1, 1:-1],
        u[::2, ::3],
        u[::-1, 5],
        u.T[3:, ::-2],
        u[3:3],
        u[2, 3],
        np.broadcast_to(u[:1], (4, u.shape[1])),
        np.lib.stride_tricks.sliding_window_view(u[0], 5),
        u.reshape(10, 10, -1)[:, 1:9:2],
    ]


@pytest.mark.parametrize("order", ["C", "F"])
def test_views_with_gaps_are_followed_and_given(order: Any) -> None:
    u = np.array(np.arange(100.0 * 210).reshape(100, 210), order=order)
    with sf.create("r", keep=1) as region, sf.open("r") as observer:
        for number, view in enumerate(views(u)):
            region.track(f"v{number}", view)
        for version in range(1, 5):
            u[version * 7] -= version
            region.publish(version)
            with observer.newest() as snapshot:
                for number, view in enumerate(views(u)):
                    found = snapshot[f"v{number}"]
                    assert found.shape == view.shape and np.array_equal(found, view), number
        region.untrack("v0")
        region.publish(5, {"v0": u[::5]})
        with observer.newest() as snapshot:
            assert np.array_equal(snapshot["v0"], u[::5])


def test_what_was_not_written_is_not_copied() -> None:
    u = np.zeros((1026, 1026))
    with sf.create("r") as region:
        region.track("u", u[1:-1, 1:-1])
        assert region.publish(1).copied_pages == 2048
        assert region.publish(2).copied_pages == 0
        u[0] = u[-1] = 1.0
        assert region.publish(3).copied_pages <= 2
        u[500, 500] = 2.0
        assert 1 <= region.publish(4).copied_pages <= 4


def test_numbers_are_rounded() -> None:
    u = np.linspace(-70000, 70000, 5001).reshape(3, 1667)
    z = u[:, :9] + 1j * u[:, 9:18]
    with sf.create("r") as region, sf.open("r") as observer:
        region.track("single", u, dtype="float32")
        region.track("half", u[:, ::2], dtype="float16")
        region.track("brain", u, dtype="bfloat16")
        region.track("z", z, dtype="complex64")
        region.track("halves", u.astype("f4"), dtype="f2")
        region.publish(1)
        with observer.newest() as snapshot:
            with np.errstate(over="ignore"):
                assert np.array_equal(snapshot["single"], u.astype("f4"))
                assert np.array_equal(snapshot["half"], u[:, ::2].astype("f2"))
                assert np.array_equal(snapshot["halves"], u.astype("f4").astype("f2"))
            assert np.array_equal(snapshot["z"], z.astype("c8"))
            # The upper half of a float32, rounded to the nearest.
            brain = np.ascontiguousarray(snapshot["brain"]).view("u2").astype("u4") << 16
            assert np.allclose(brain.view("f4"), u, rtol=2**-8)
        with pytest.raises(sf.MisuseError, match="float64"):
            region.track("whole", u, dtype="int32")


def test_half_numbers_are_types_of_variables() -> None:
    with sf.create("r") as region, sf.open("r") as observer:
        half = region.array("half", shape=(4,), dtype="float16")
        bits = region.array("bits", shape=(4,), dtype="bfloat16")
        half[:] = [1, 0.5, np.inf, -2]
        bits.view("u2")[:] = [0x3F80, 0x4000, 0, 0x7F80]
        tracked = np.arange(6, dtype="f2")
        region.track("tracked", tracked[::2])
        region.publish(1)
        with observer.newest() as snapshot:
            assert snapshot["half"].dtype == np.float16 and snapshot["half"].tolist() == [1, 0.5, np.inf, -2]
            assert snapshot["bits"].view("u2").tolist() == [0x3F80, 0x4000, 0, 0x7F80]
            assert snapshot["tracked"].tolist() == [0, 2, 4]


def test_a_started_publish_of_a_view_is_what_was_there() -> None:
    u = np.ones((600, 600))
    with sf.create("r", threads=2) as region, sf.open("r") as observer:
        region.track("u", u[1:-1, 1:-1])
        with region.publish_start(1):
            u[:] = 2.0
        with observer.newest() as snapshot:
            assert (snapshot["u"] == 1.0).all()


def test_memoryviews_with_gaps_need_no_numpy() -> None:
    with sf.create("r") as region, sf.open("r") as observer:
        region.track("x", memoryview(bytearray(range(20)))[1::3])
        region.publish(1)
        with observer.newest() as snapshot:
            assert bytes(snapshot["x"]) == bytes(range(20))[1::3]
