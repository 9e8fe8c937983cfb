"""What many runs come to: means, spreads and ratios as rows, tables and pictures, and whether the requirements are met."""

import statistics

from modes import OURS

#: Every ratio is to this mode.
BASELINE = "thp-always"
GLIBC = ("glibc-thp", "glibc-reserved")


def percentiles(values):
    """The 5th and the 95th."""
    if len(values) < 2:
        return values[0], values[0]
    parts = statistics.quantiles(values, n=20, method="inclusive")
    return parts[0], parts[-1]


def spread(values):
    """From the 5th percentile to the 95th."""
    low, high = percentiles(values)
    return high - low


def mean_of(runs, name):
    """The mean of what was counted; None where a program does not say it."""
    values = [run[name] for run in runs if run.get(name) is not None]
    return statistics.mean(values) if values else None


def ratio(value, other):
    return value / other if other else None


def group(runs):
    """Runs of the same by program, load, pin and mode, in the order in which they came."""
    groups = {}
    for run in runs:
        groups.setdefault((run["program"], run["load"], run["pin"]), {}).setdefault(run["mode"], []).append(run)
    return groups


def make_rows(runs):
    """A row for each program, load, pin and mode: mean seconds beside those of the baseline."""
    for (program, load, pin), modes in group(runs).items():
        # A program that only starts is measured until it has its memory.
        measure = "ready" if program == "start" else "seconds"
        seconds = {mode: [run[measure] for run in chosen] for mode, chosen in modes.items()}
        base = seconds.get(BASELINE)
        for mode, chosen in modes.items():
            value, width = statistics.mean(seconds[mode]), spread(seconds[mode])
            figures = [run["figures"] for run in chosen if "figures" in run]
            detail = {
                "turns": len(chosen),
                "spread": width,
                "spread_ratio": ratio(width, spread(base)) if base else None,
                "baseline_spread": spread(base) if base else None,
                **{name: mean_of(chosen, name) for name in ("step_seconds", "step_faults", "faults", "large_bytes")},
                "most_step_faults": max(
                    (run["step_faults"] for run in chosen if run.get("step_faults") is not None), default=None
                ),
                "low": percentiles(seconds[mode])[0],
                "high": percentiles(seconds[mode])[1],
                "seconds": seconds[mode],
            }
            if figures:
                detail["figures"] = {name: statistics.mean(one[name] for one in figures) for name in figures[0]}
            yield {
                "bench": "pages",
                "case": {"program": program, "mode": mode, "load": load, "pin": pin, "size": chosen[0]["size"]},
                "value": value,
                "unit": "s",
                "baseline": statistics.mean(base) if base else None,
                "ratio": ratio(value, statistics.mean(base)) if base else None,
                "detail": detail,
            }


def select(rows, **case):
    return [row for row in rows if all(row["case"][name] == value for name, value in case.items())]


def names_of(rows, name):
    """The different values of a part of the case, in the order in which they came."""
    return list(dict.fromkeys(row["case"][name] for row in rows))


def find_ratios(rows, mode, others):
    """For each program the ratio of this mode to the best of others that went with it."""
    ratios = {}
    for row in rows:
        if row["case"]["mode"] == mode:
            beside = [
                one["value"] for other in others for one in select(rows, mode=other, program=row["case"]["program"])
            ]
            if beside:
                ratios[row["case"]["program"]] = row["value"] / min(beside)
    return ratios


def sum_up(rows):
    """For each load, pin and mode: over the programs, the mean and the highest ratio to the baseline, and that of the spreads."""
    steady = [row for row in rows if row["case"]["program"] != "start" and row["ratio"] is not None]
    for load in names_of(steady, "load"):
        for pin in names_of(steady, "pin"):
            for mode in names_of(steady, "mode"):
                mine = select(steady, load=load, pin=pin, mode=mode)
                if not mine:
                    continue
                # Relative to the baseline's mean, so that a long program does not decide alone.
                widths = [
                    (row["detail"]["spread"] / row["baseline"], row["detail"]["baseline_spread"] / row["baseline"])
                    for row in mine
                ]
                yield {
                    "bench": "pages",
                    "case": {
                        "measures": "over programs",
                        "mode": mode,
                        "load": load,
                        "pin": pin,
                        "size": mine[0]["case"]["size"],
                    },
                    "value": statistics.mean(row["ratio"] for row in mine),
                    "unit": "ratio",
                    "baseline": 1.0,
                    "ratio": statistics.mean(row["ratio"] for row in mine),
                    "detail": {
                        "programs": [row["case"]["program"] for row in mine],
                        "highest": max(row["ratio"] for row in mine),
                        "spread_ratio": ratio(sum(one for one, _ in widths), sum(other for _, other in widths)),
                    },
                }


def check_requirements(rows):
    """What the launcher must reach, as (what, figure, bound), for each load and pin that was measured."""
    steady = [row for row in rows if row["case"]["program"] != "start"]
    others = [mode for mode in names_of(steady, "mode") if mode != OURS]
    for total in sum_up(rows):
        case, detail = total["case"], total["detail"]
        if case["mode"] != OURS:
            continue
        mine = select(steady, load=case["load"], pin=case["pin"])
        where = place_of(case["load"], case["pin"])
        if case["load"] == "none":
            best = find_ratios(mine, OURS, others)
            yield f"{where}: time / best other, mean", statistics.mean(best.values()), 1.0
        else:
            yield f"{where}: time / {BASELINE}, mean", total["ratio"], 0.85
            yield f"{where}: time / {BASELINE}, highest", detail["highest"], 1.0
            for glibc in GLIBC:
                beside = find_ratios(mine, OURS, [glibc])
                if beside:
                    yield f"{where}: time / {glibc}, mean", statistics.mean(beside.values()), 1.0
            if detail["spread_ratio"] is not None:
                yield f"{where}: spread / {BASELINE}'s", detail["spread_ratio"], 0.25
        faults = [row["detail"]["most_step_faults"] for row in select(mine, mode=OURS)]
        counted = [count for count in faults if count is not None]
        if counted:
            yield f"{where}: faults in the steps, most", max(counted), 0
    starts = [row for row in rows if row["case"]["program"] == "start"]
    for row in select(starts, mode=OURS):
        load, pin = row["case"]["load"], row["case"]["pin"]
        for one in select(starts, load=load, pin=pin):
            if one["case"]["mode"].startswith("populate"):
                yield f"{place_of(load, pin)}: start / {one['case']['mode']}", row["value"] / one["value"], 1.1


def place_of(load, pin):
    """A load and a pin, for people."""
    beside = {"none": "alone", "build": "beside a build", "cache": "beside a build and a full page cache"}
    processors = {"one": "on one processor", "free": "on all processors"}
    return f"{beside[load]}, {processors[pin]}"


def form(value, digits=3):
    return "" if value is None else f"{value:.{digits}f}"


def print_table(title, head, lines):
    if lines:
        print(f"\n{title}\n\n| {' | '.join(head)} |\n{'|---' * len(head)}|")
    for line in lines:
        print(f"| {' | '.join(line)} |")


def make_line(row):
    """A program in a mode."""
    case, detail = row["case"], row["detail"]
    large = detail["large_bytes"]
    return [
        case["program"],
        case["mode"],
        str(detail["turns"]),
        form(row["value"]),
        form(row["ratio"]),
        form(detail["spread"]),
        form(detail["spread_ratio"], 2),
        form(detail["step_seconds"]),
        form(detail["step_faults"], 0),
        form(detail["faults"], 0),
        form(None if large is None else large / 2**20, 0),
    ]


def print_tables(rows):
    """For each load and pin a table of all programs and modes, then what they come to, and the requirements."""
    head = ["program", "mode", "turns", "s", f"/ {BASELINE}", "spread, s", "/ its spread"]
    head += ["steps, s", "faults in steps", "faults", "large, MiB"]
    for load in names_of(rows, "load"):
        for pin in names_of(rows, "pin"):
            lines = [make_line(row) for row in select(rows, load=load, pin=pin)]
            print_table(place_of(load, pin), head, lines)
    lines = []
    for total in sum_up(rows):
        case, detail = total["case"], total["detail"]
        figures = [form(total["ratio"]), form(detail["highest"]), form(detail["spread_ratio"], 2)]
        lines.append([place_of(case["load"], case["pin"]), case["mode"], *figures])
    print_table(f"Over the programs, relative to {BASELINE}", ["", "mode", "time, mean", "highest", "spread"], lines)
    lines = [
        [what, form(figure), form(bound, 2), "yes" if figure <= bound else "no"]
        for what, figure, bound in check_requirements(rows)
    ]
    print_table("What the launcher must reach", ["", "is", "at most", "reached"], lines)


COLOURS = {
    "still": "#2a6f97",
    "thp-always": "#c1121f",
    "thp-madvise": "#e5989b",
    "thp-never": "#adb5bd",
    "glibc-thp": "#2d6a4f",
    "glibc-reserved": "#95d5b2",
    "libhugetlbfs": "#bc8a5f",
    "mimalloc": "#f4a261",
}


def draw(rows, path):
    """A panel for each load, and a line of panels for each pin: the ratio of each mode, with the middle 90 % of its runs."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = [row for row in rows if row["ratio"] is not None and row["case"]["mode"] in COLOURS]
    loads, pins = names_of(rows, "load"), names_of(rows, "pin")
    programs, modes = names_of(rows, "program"), [mode for mode in COLOURS if select(rows, mode=mode)]
    if not rows:
        return
    size = (2 + 4.6 * len(loads), 1 + 3.2 * len(pins))
    figure, panels = plt.subplots(len(pins), len(loads), figsize=size, squeeze=False, sharey=True, layout="constrained")
    width = 0.86 / len(modes)
    for line, pin in zip(panels, pins):
        for axis, load in zip(line, loads):
            for number, mode in enumerate(modes):
                mine = select(rows, load=load, pin=pin, mode=mode)
                at = [programs.index(row["case"]["program"]) + (number - (len(modes) - 1) / 2) * width for row in mine]
                whole = [row["ratio"] for row in mine]
                # A few slow runs can lift the mean above the 95th percentile.
                low = [max(row["value"] - row["detail"]["low"], 0) / row["baseline"] for row in mine]
                high = [max(row["detail"]["high"] - row["value"], 0) / row["baseline"] for row in mine]
                axis.bar(at, whole, width, color=COLOURS[mode], label=mode)
                axis.errorbar(at, whole, [low, high], fmt="none", ecolor="#333333", elinewidth=0.8)
            axis.axhline(1, color="#333333", lw=0.8, ls="--")
            axis.set_title(place_of(load, pin), fontsize=11)
            axis.set_xticks(range(len(programs)), programs, fontsize=9)
            axis.set_xlim(-0.6, len(programs) - 0.4)
            axis.spines[["top", "right"]].set_visible(False)
        line[0].set_ylabel(f"time / {BASELINE}")
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(modes), frameon=False, fontsize=9)
    figure.savefig(path, dpi=120)
