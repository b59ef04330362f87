#!/usr/bin/env python3
"""Recomputes what `fsage compare` and `fsage report` say from what `fsage export` wrote, with numpy and scipy.

    scripts/recompute.py [--fsage PATH]                          the stores that come with the tests, and simulated ones
    scripts/recompute.py [--fsage PATH] A B [--fail-if EXPR …]       two sides, as `fsage compare` takes them
    scripts/recompute.py [--fsage PATH] --report STORE            the intervals and verdicts of the report of a store

Nothing of fsage's code is used: samples come from `fsage export --format parquet`, what is checked from `fsage compare --json`. Every row's
means, estimate, interval, p, corrected p, Cliff's delta, outliers, verdict and words, and every gate, must agree: to 1e-9, the smallest
change that would be found to 1 % (fsage integrates it numerically: with about one degree of freedom it is 0.1 % off). The first part also reads every format with pandas and DuckDB.
Of a report, every ratio and interval of the tables of ageing slowdowns (aged against unaged), controls, differences, lock-step and remedies
must agree to 1e-9, and every claim's numbers and verdict. Taken as said: that a condition of a claim is not met, that a warning makes a number
unfit or that sides did different work, because the export does not have them; trends, whose ticks it does not have.
Selections are by factors of the matrix only. Exit code 0: all agrees; 1: something does not; 2: usage.

The packages are installed into an environment of the script's own, FSAGE_PYTHON_ENV or target/python/recompute.
"""

import argparse
import fnmatch
import json
import math
import os
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ["numpy", "scipy", "pandas", "duckdb", "pyarrow", "prometheus-client", "jsonschema"]
TOLERANCE = 1e-9
FACTOR = "factor."
# The numbers of a measure that the page shows beside its headline.
BESIDE = ["read_requests", "dynamic_layout_score", "write_requests", "write_layout_score", "queue_depth"]
# The factors that are never averaged over.
PLACES = ["file_system.kind", "volume.medium"]


def in_own_environment():
    """Starts the script again in its environment, which is made where it is missing."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    folder = Path(os.environ.get("FSAGE_PYTHON_ENV", target / "python/recompute")).absolute()
    if Path(sys.prefix) == folder:
        return
    python = folder / "bin/python3"
    ready = folder / ".ready"
    if not ready.exists() or ready.read_text().split() != PACKAGES:
        for command in ([sys.executable, "-m", "venv", folder], [python, "-m", "pip", "install", "--quiet", *PACKAGES]):
            if subprocess.run(command).returncode != 0:
                sys.exit(f"recompute: cannot make {folder}; on Debian, `apt-get install python3-venv` may be missing")
        ready.write_text("\n".join(PACKAGES))
    os.execv(python, [python, *sys.argv])


if __name__ == "__main__":
    in_own_environment()

import duckdb  # noqa: E402
import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from scipy import optimize, stats  # noqa: E402


# ---- the estimator, after docs/compare.md ----


class Found:
    """A difference on the scale of the values."""

    def __init__(self, value, error, freedom, method, units_a, units_b, low=None, high=None, p=None):
        self.value, self.error, self.freedom, self.method = value, error, freedom, method
        self.units_a, self.units_b, self.low, self.high, self.p = units_a, units_b, low, high, p

    @property
    def units(self):
        return min(self.units_a, self.units_b)

    @property
    def constant(self):
        return self.method in ("signs (no spread)", "arrangement (no spread)")

    def smallest_p(self):
        if self.method == "arrangement (no spread)":
            return min(1.0, 2 / math.comb(self.units_a + self.units_b, min(self.units_a, self.units_b)))
        return min(1.0, 2 * 0.5**self.units)

    def detectable(self, level):
        """The smallest distance that a test at `level` finds with 80 % power."""
        if self.method == "no interval: one unit":
            return None
        if self.constant:
            return 0.0 if self.smallest_p() <= level else None
        critical = stats.t.isf(level / 2, self.freedom)

        def miss(shift):
            return stats.nct.sf(critical, self.freedom, shift) - 0.8

        high = critical + 2
        while miss(high) < 0:
            high *= 1.5
        return optimize.brentq(miss, 0, high, xtol=1e-7) * self.error


def influence(cells):
    """Variance of the mean over cells, a seed's deviations added over the cells; None where a cell has one unit."""
    if min(len(cell) for cell in cells) < 2:
        return None
    seeds = {}
    for cell in cells:
        n, own = len(cell), np.mean(list(cell.values()))
        weight = math.sqrt(n / (n - 1)) / (n * len(cells))
        for seed, value in cell.items():
            seeds[seed] = seeds.get(seed, 0.0) + weight * (value - own)
    return sum(value**2 for value in seeds.values()), min(len(cell) for cell in cells) - 1


def tested(found, scale, shifts, exact, confidence):
    rounding = 1e-12 * max(scale, 1e-12)
    if found.error <= rounding:
        none = abs(found.value) <= 4 * rounding
        signs = {0 if abs(shift) <= 4 * rounding else math.copysign(1, shift) for shift in shifts}
        value = 0.0 if none else found.value
        found = Found(value, 0.0, 0.0, exact, found.units_a, found.units_b, value, value)
        found.p = 1.0 if none or len(signs) > 1 else found.smallest_p()
        return found
    return student(found, confidence)


def student(found, confidence):
    reach = stats.t.ppf(0.5 + confidence / 2, found.freedom) * found.error
    found.low, found.high = found.value - reach, found.value + reach
    found.p = min(1.0, 2 * stats.t.sf(abs(found.value / found.error), found.freedom))
    return found


def coarse(found, cells, grains, confidence):
    """The same, no finer than one request: a variance of grain² for each trial."""
    grains = [grain for grain in grains if grain is not None]
    square = np.mean(np.square(grains)) if grains else 0.0
    least = math.sqrt(square * (1 / found.units_a + 1 / found.units_b) / cells)
    if found.method in ("Student's t of pairs", "Welch's t", "Student's t, one spread for all") and found.error < least:
        found.error = least
        return student(found, confidence)
    return found


# What is counted in requests, and the counter of them.
COUNTED = {
    "read_requests": "read", "write_requests": "write", "mean_read_request": "read", "mean_write_request": "write",
    "sequential_read_share": "read", "sequential_write_share": "write", "dynamic_layout_score": "read", "write_layout_score": "write",
}


def grain(trial, metric, ratio):
    """What one request is of a metric of a trial, on the scale of its comparison; None where nothing tells."""
    series = trial.metrics[metric]
    measure, _, name = metric.rpartition(".")
    requests = trial.metrics.get(f"{measure}.{COUNTED.get(name)}_requests")
    value = np.mean(series["samples"])
    if not measure or requests is None or not (math.isfinite(value) and value > 0):
        return None
    number = np.mean(requests["samples"])
    if not number >= 1:
        return None
    one = (1.0 if series["unit"] == "share" else value) / number
    return one / value if ratio else one



def paired(pairs, confidence):
    """`pairs`: cell, seed, rounds of A, rounds of B."""
    cells = {}
    for cell, seed, a, b in pairs:
        cells.setdefault(cell, {})[seed] = np.mean(b) - np.mean(a)
    cells = list(cells.values())
    means = [np.mean(list(cell.values())) for cell in cells]
    units, spread = min(len(cell) for cell in cells), influence(cells)
    if spread is None:
        return Found(np.mean(means), 0, 0, "no interval: one unit", units, units)
    found = Found(np.mean(means), math.sqrt(spread[0]), spread[1], "Student's t of pairs", units, units)
    scale = max(abs(x) for *_, a, b in pairs for x in [*a, *b])
    return tested(found, scale, means, "signs (no spread)", confidence)


def apart(a, b, confidence):
    """Sides as lists of cell, seed, rounds."""

    def nested(side):
        cells = {}
        for cell, seed, rounds in side:
            cells.setdefault(cell, {}).setdefault(seed, []).append(np.mean(rounds))
        return cells

    a_cells, b_cells = nested(a), nested(b)
    common = sorted(set(a_cells) & set(b_cells))
    sides = [[{s: np.mean(v) for s, v in cells[c].items()} for c in common] for cells in (a_cells, b_cells)]
    means = [[np.mean(list(cell.values())) for cell in side] for side in sides]
    value = np.mean(means[1]) - np.mean(means[0])
    units = [min(len(cell) for cell in side) for side in sides]
    spreads = [influence(side) for side in sides]
    if None not in spreads:
        (of_a, free_a), (of_b, free_b) = spreads
        total = of_a + of_b
        freedom = total**2 / (of_a**2 / free_a + of_b**2 / free_b) if total > 0 else math.nan
        found = Found(value, math.sqrt(total), freedom, "Welch's t", *units)
    else:
        cells = [list(cell.values()) for side in sides for cell in side]
        freedom = sum(len(cell) - 1 for cell in cells)
        if freedom == 0:
            return Found(value, 0, 0, "no interval: one unit", *units)
        squares = sum(np.sum((np.array(cell) - np.mean(cell)) ** 2) for cell in cells)
        variance = squares / freedom * sum(1 / len(cell) for cell in cells)
        found = Found(value, math.sqrt(variance) / len(common), freedom, "Student's t, one spread for all", *units)
    scale = max(abs(x) for cell, _, rounds in [*a, *b] if cell in common for x in rounds)
    shifts = [y - x for x, y in zip(*means)]
    return tested(found, scale, shifts, "arrangement (no spread)", confidence)


def benjamini_hochberg(p):
    known = [i for i, value in enumerate(p) if value is not None]
    adjusted = [None] * len(p)
    if known:
        for i, value in zip(known, stats.false_discovery_control([p[i] for i in known], method="bh")):
            adjusted[i] = float(value)
    return adjusted


def holm(p):
    known = sorted((i for i, value in enumerate(p) if value is not None), key=lambda i: p[i])
    adjusted, largest = [None] * len(p), 0.0
    for place, i in enumerate(known):
        largest = min(1.0, max(largest, p[i] * (len(known) - place)))
        adjusted[i] = largest
    return adjusted


def outliers(values):
    """How many lie far from the others (Leys et al. 2013; Dean and Dixon 1951 for three and four)."""
    values = np.array(values)
    if len(values) in (3, 4):
        ordered = np.sort(values)
        spread = ordered[-1] - ordered[0]
        if spread <= 1e-12 * max(abs(ordered[0]), abs(ordered[-1])):
            return 0
        gap = max(ordered[1] - ordered[0], ordered[-1] - ordered[-2])
        return int(gap > {3: 0.970, 4: 0.829}[len(values)] * spread)
    if len(values) < 5:
        return 0
    centre = np.median(values)
    reach = 3 * stats.median_abs_deviation(values, scale=1 / 1.482602218505602)
    if reach > 1e-12 * abs(centre):
        return int(np.sum(np.abs(values - centre) > reach))
    first, third = np.quantile(values, [0.25, 0.75])
    reach = 3 * (third - first) + 1e-12 * max(abs(first), abs(third))
    return int(np.sum((values < first - reach) | (values > third + reach)))


# ---- sides, pairs and rows ----


class Trial:
    def __init__(self, rows, columns):
        first = rows.iloc[0]
        self.id, self.repeat = first["trial"], int(first["repeat"])
        self.factors = {c[len(FACTOR):]: first[c] for c in columns if not pd.isna(first[c])}
        self.metrics = {}
        for name, of in rows.groupby("metric", sort=False):
            run = of["run"].iloc[0]
            worse = of["larger_is_worse"].iloc[0]
            self.metrics[name] = {
                "unit": of["unit"].iloc[0],
                "worse": None if pd.isna(worse) else bool(worse),
                "run": None if pd.isna(run) else run,
                "samples": of.sort_values("sample")["value"].to_numpy(float),
            }


def exported(fsage, store, folder, kind="parquet"):
    path = folder / f"{str(store).strip('/').replace('/', '-')}.{kind}"
    if not path.exists():
        subprocess.run([fsage, "export", store, "--format", kind, "-o", path, "--quiet"], check=True)
    return path


def trials_of(path):
    table = duckdb.sql(f"SELECT * FROM read_parquet('{path}')").df()
    columns = [c for c in table.columns if c.startswith(FACTOR)]
    return [Trial(rows, columns) for _, rows in table.groupby("trial", sort=True)]


def side(fsage, text, folder):
    """Trials of a selection and the factors that it names."""
    store, wanted = text, {}
    if not Path(text).exists() and ":" in text:
        store, _, pairs = text.partition(":")
        wanted = dict(pair.split("=", 1) for pair in pairs.split(","))

    def fits(trial):
        def same(have, want):
            try:
                return math.isclose(float(have), float(want), rel_tol=1e-9)
            except (TypeError, ValueError):
                return str(have) == want

        # Controls are trials of their own: only who names them compares them.
        if "control" in trial.factors and "control" not in wanted:
            return False
        return all(k in trial.factors and same(trial.factors[k], v) for k, v in wanted.items())

    return [trial for trial in trials_of(exported(fsage, store, folder)) if fits(trial)], set(wanted)


def indifferent(trials, metric):
    """Factors in which trials of one run differ: they made no difference to it."""
    first, paths = {}, set()
    for trial in trials:
        run = trial.metrics.get(metric, {}).get("run")
        if run is not None:
            other = first.setdefault(run, trial)
            paths |= {k for k, v in trial.factors.items() if other.factors.get(k) != v}
    return paths


def matched(a, b, closed):
    def cell(trial):
        return tuple(sorted((k, str(v)) for k, v in trial.factors.items() if k not in closed))

    common = {cell(t) for t in a} & {cell(t) for t in b}

    def place(trial):
        return ", ".join(str(trial.factors[k]) for k in PLACES if common and k in trial.factors and k not in closed)

    return [[(place(t), cell(t), t) for t in s if not common or cell(t) in common] for s in (a, b)]


def values(placed, metric):
    seen, found = set(), []
    for context, cell, trial in placed:
        series = trial.metrics.get(metric)
        if series is None or (series["run"] is not None and series["run"] in seen):
            continue
        seen.add(series["run"])
        found.append((context, cell, trial.repeat, series["samples"], series["run"], grain(trial, metric, by_ratio(metric, series["unit"]))))
    return found


def sample(a, b):
    """Pairs or sides of a context: whether they are pairs, and both sides as cell, repeat, rounds."""
    of_a, of_b = ({(c, r): v for c, r, v in s} for s in (a, b))
    both = len(of_a.keys() & of_b.keys())
    unique = len(of_a) == len(a) and len(of_b) == len(b)
    most = both >= 2 and 2 * both >= min(len(a), len(b))
    pairs = unique and (most or both == len(a) == len(b))

    def kept(own, other):
        cells = {cell for cell, _ in other}
        fits = (lambda c, r: (c, r) in other) if pairs else (lambda c, r: c in cells)
        return sorted([(c, r, v) for c, r, v in own if fits(c, r)], key=lambda item: item[:2])

    kept_a, kept_b = kept(a, of_b), kept(b, of_a)
    if not kept_a:
        kept_a, kept_b = ([((), r, v) for _, r, v in s] for s in (a, b))
    return pairs, kept_a, kept_b


def strata(side):
    cells = {}
    for cell, _, rounds in side:
        cells.setdefault(cell, []).append(np.mean(rounds))
    return cells


def by_ratio(metric, unit):
    """Whether a metric goes by its logs: all but shares, and counts of what need not happen."""
    last = metric.rsplit(".", 1)[-1]
    rare = last in ("noncontiguous_files", "small_extents") or (last.startswith("disk_") and unit == "count")
    return unit != "share" and not rare


def with_ratios(pairs, a, b):
    """The trials that are above 0, in pairs with their partners, and how many are not; where all are 0, nothing is left out."""
    above = [[np.mean(v) > 0 for *_, v in side] for side in (a, b)]
    if all((np.mean(v) == 0 for *_, v in [*a, *b])):
        return a, b, 0
    zeros = sum(not one for side in above for one in side)
    if pairs:
        keep = [x and y for x, y in zip(*above)]
        above = [keep, keep]
    return *([one for one, fits in zip(side, own) if fits] for side, own in zip((a, b), above)), zeros


def row_of(metric, context, series, a, b, grains, confidence):
    pairs, a, b = sample(a, b)
    means = [np.mean([np.mean(v) for v in strata(side).values()]) for side in (a, b)]
    ratio, zeros = by_ratio(metric, series["unit"]), 0
    if ratio:
        a, b, zeros = with_ratios(pairs, a, b)
    row = {
        "metric": metric, "context": context, "unit": series["unit"], "worse": series["worse"],
        "scale": "ratio" if ratio else "difference", "paired": pairs, "n_a": len(a), "n_b": len(b), "zeros": zeros,
        "units": 0, "method": "no ratio: values of 0", "constant": False, "mean_a": means[0], "mean_b": means[1],
        "estimate": None, "low": None, "high": None, "p": None, "cliffs_delta": None, "outliers_a": 0, "outliers_b": 0,
        "detectable": None, "found": None,
    }
    if not a or not b:
        return row
    every = [*a, *b]
    logs, nothing = all((v > 0).all() for *_, v in every), all(np.mean(v) == 0 for *_, v in every)

    def on(v):
        return v if not ratio else np.zeros(1) if nothing else np.log(v) if logs else np.log([np.mean(v)])

    if pairs:
        found = paired([(c, r, on(x), on(y)) for (c, r, x), (_, _, y) in zip(a, b)], confidence)
    else:
        found = apart([(c, r, on(v)) for c, r, v in a], [(c, r, on(v)) for c, r, v in b], confidence)
    cells = len({c for c, *_ in a} & {c for c, *_ in b})
    found = coarse(found, cells, grains, confidence)
    back = math.exp if ratio else float
    if found.constant and found.smallest_p() > 1 - confidence:
        found.low = found.high = None
    of_a, of_b = strata(a), strata(b)
    delta = None
    if len(a) > 1 and len(b) > 1:
        # A cell that a side has lost to its zeros leaves none.
        whole_cells = of_a.keys() == of_b.keys()
        cells = [np.mean(np.sign(np.subtract.outer(of_b[c], of_a[c]))) for c in sorted(of_a)] if whole_cells else []
        delta = np.mean(cells) if cells else None
    smallest = found.detectable(1 - confidence)
    row.update(
        units=found.units, method=found.method, constant=found.constant, estimate=back(found.value),
        low=None if found.low is None else back(found.low), high=None if found.high is None else back(found.high),
        p=found.p, cliffs_delta=delta, detectable=None if smallest is None else back(smallest), found=found,
        outliers_a=sum(outliers(v) for v in of_a.values()), outliers_b=sum(outliers(v) for v in of_b.values()),
    )
    return row


def rows_of(a, b, named, confidence):
    rows = []
    names = {m for t in a for m in t.metrics} & {m for t in b for m in t.metrics}
    for metric in sorted(names):
        series = next(t.metrics[metric] for t in a if metric in t.metrics)
        if next(t.metrics[metric] for t in b if metric in t.metrics)["unit"] != series["unit"]:
            continue
        placed = matched(a, b, named | indifferent([*a, *b], metric))
        of_a, of_b = (values(s, metric) for s in placed)
        shared = {v[4] for v in of_a} & {v[4] for v in of_b} - {None}
        contexts = {}
        for number, s in enumerate((of_a, of_b)):
            for context, cell, repeat, rounds, run, own in s:
                if run not in shared:
                    contexts.setdefault(context, ([], [], []))[number].append((cell, repeat, rounds))
                    contexts[context][2].append(own)
        for context, (in_a, in_b, grains) in sorted(contexts.items()):
            if in_a and in_b:
                rows.append(row_of(metric, context, series, in_a, in_b, grains, confidence))
    for row, adjusted in zip(rows, benjamini_hochberg([row["p"] for row in rows])):
        row["p_adjusted"] = adjusted
        neutral = 1.0 if row["scale"] == "ratio" else 0.0
        excludes = row["low"] is not None and (row["low"] > neutral or row["high"] < neutral)
        larger = row["estimate"] is not None and row["estimate"] > neutral
        if not excludes or adjusted is None or adjusted > 1 - confidence:
            row["finding"] = "no-evidence"
        elif row["worse"] is None:
            row["finding"] = "differs"
        else:
            row["finding"] = "worse" if row["worse"] == larger else "better"
        row["excludes"] = excludes
    return rows


def words(row):
    """The row in words, where it has an interval and no unit of its own; else None."""
    of_ratio = row["scale"] == "ratio"
    if row["low"] is None or row["constant"] or not (of_ratio or row["unit"] == "share"):
        return None

    def number(value):
        text = f"{value:.1f}"
        return f"{value:.0f}" if abs(value) >= 9.95 or text.endswith(".0") else text

    def shown(value):
        return (value - 1) * 100 if of_ratio else value * 100

    up = row["estimate"] > (1 if of_ratio else 0)
    plain = {"bytes/model s": "bytes/s", "1/model s": "1/s"}.get(row["unit"], row["unit"].removeprefix("model "))
    if plain in ("ns", "s") and row["worse"]:
        verb = "slower" if up else "faster"
    elif plain == "1/s" and row["worse"] is False:
        verb = "faster" if up else "slower"
    elif plain in ("ns", "s"):
        verb = "longer" if up else "shorter"
    else:
        verb = "more" if up else "less"
    low, high = shown(row["low"]), shown(row["high"])
    ends = (low, high) if up else (-high, -low)
    unit = "%" if of_ratio else "points"
    by = f"{verb} by {number(abs(shown(row['estimate'])))} {unit} [{number(ends[0])}, {number(ends[1])}]"
    if row["finding"] != "no-evidence":
        return by
    return f"{by}, not significant after correction" if row["excludes"] else f"no evidence of a difference: {by}"


def beside(found, limit):
    """One-sided p of the side of the limit on which the value lies."""
    far = abs(found.value - limit)
    if found.method == "no interval: one unit":
        return None
    if found.constant:
        return 1.0 if far <= 1e-9 * max(abs(limit), 1e-9) else found.smallest_p() / 2
    return float(stats.t.sf(far / found.error, found.freedom))


def gates_of(rows, gates, confidence):
    """For each gate the rows that fire and those that are inconclusive: each is tested against the limit, by Holm over all gates."""
    level, parsed, p = 1 - confidence, [], []
    for text in gates:
        sign = next(s for s in (">=", "<=", ">", "<") if s in text)
        pattern, limit = (part.strip() for part in text.split(sign, 1))
        limit, up = float(limit), sign.startswith(">")
        passed = {">": float.__gt__, ">=": float.__ge__, "<": float.__lt__, "<=": float.__le__}[sign]
        exact = any(row["metric"] == pattern for row in rows)
        tests = []
        for row in rows:
            name, found = row["metric"], row["found"]
            glob = fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name, f"{pattern}.*")
            gain = row["worse"] is not None and row["worse"] != up
            if not (name == pattern if exact else glob and not gain):
                continue
            of_ratio = row["scale"] == "ratio"
            at = math.log(limit) if of_ratio else (limit - 1) * row["mean_a"] if row["mean_a"] >= 0 else None
            same = row["constant"] and not row["zeros"] and row["estimate"] == (1 if of_ratio else 0)
            met = same and not passed(1.0, limit)
            p.append(None if met or row["zeros"] or found is None or at is None else beside(found, at))
            beyond = found is not None and at is not None and (found.value - at) * (1 if up else -1) > 0
            tests.append(((row["metric"], row["context"]), met, beyond))
        parsed.append((text, tests))
    adjusted, outcomes = iter(holm(p)), []
    for text, tests in parsed:
        fired, untold = set(), set()
        for (key, met, beyond), own in [(test, next(adjusted)) for test in tests]:
            if met:
                continue
            if own is None or own > level:
                untold.add(key)
            elif beyond:
                fired.add(key)
        outcomes.append((text, fired, untold))
    return outcomes


# ---- what is checked ----


class Check:
    def __init__(self):
        self.numbers = self.failures = 0

    def that(self, what, ours, theirs, tolerance=TOLERANCE):
        self.numbers += 1
        if isinstance(ours, (float, np.floating)) and isinstance(theirs, (int, float)):
            same = math.isclose(ours, theirs, rel_tol=tolerance, abs_tol=1e-12)
        else:
            same = ours == theirs
        if not same:
            self.failures += 1
            print(f"DISAGREES: {what}: recomputed {ours!r}, fsage {theirs!r}", file=sys.stderr)


EXACT = ["unit", "scale", "paired", "n_a", "n_b", "units", "method", "constant", "outliers_a", "outliers_b", "finding"]
CLOSE = ["mean_a", "mean_b", "estimate", "low", "high", "p", "p_adjusted", "cliffs_delta"]


def check_comparison(check, fsage, a, b, gates, folder):
    command = [fsage, "compare", a, b, "--json", "--quiet", *[x for gate in gates for x in ("--fail-if", gate)]]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode not in (0, 6, 7):
        sys.exit(f"{' '.join(map(str, command))} failed with {run.returncode}:\n{run.stderr}")
    theirs = json.loads(run.stdout)
    confidence = theirs["confidence"]
    (of_a, named_a), (of_b, named_b) = side(fsage, a, folder), side(fsage, b, folder)
    ours = rows_of(of_a, of_b, named_a | named_b, confidence)
    keys = [(row["metric"], row["context"]) for row in theirs["rows"]]
    check.that(f"{a} {b}: rows", sorted((row["metric"], row["context"]) for row in ours), sorted(keys))
    by_key = dict(zip(keys, theirs["rows"]))
    for row in ours:
        key = (row["metric"], row["context"])
        other, what = by_key.get(key), f"{a} {b}: {key[0]} {key[1]}"
        if other is None:
            continue
        for name in EXACT:
            check.that(f"{what}: {name}", row[name], other[name])
        for name in CLOSE:
            check.that(f"{what}: {name}", row[name], other[name])
        distances = [row["detectable"], other["detectable"]]
        if row["scale"] == "ratio" and None not in distances:
            distances = [math.log(one) for one in distances]
        check.that(f"{what}: detectable", *distances, 1e-2)
        said = words(row)
        if said is not None:
            check.that(f"{what}: words", said, other["words"])
    outcomes = gates_of(ours, gates, confidence)
    for (text, fired, untold), other in zip(outcomes, theirs["gates"]):
        check.that(f"{a} {b}: gate {text} fires", fired, {(f["metric"], f["context"]) for f in other["fired"]})
        told = {(f["metric"], f["context"]) for f in other["cannot_tell"]}
        check.that(f"{a} {b}: gate {text} is inconclusive", untold, told)
    code = 6 if any(fired for _, fired, _ in outcomes) else 7 if any(untold for *_, untold in outcomes) else 0
    check.that(f"{a} {b}: exit code", code, run.returncode)
    return len(ours)


# ---- the page ----


class Tables(HTMLParser):
    """The values behind the cells of a page's tables, by the table's id."""

    def __init__(self, page):
        super().__init__()
        self.tables, self.own = {}, None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "div" and "table-box" in (attributes.get("class") or ""):
            self.own = self.tables.setdefault(attributes["id"], [])
        elif tag == "tr" and self.own is not None:
            self.own.append([])
        elif tag == "td" and self.own:
            self.own[-1].append(attributes.get("data-raw") or "")

    def rows(self, name):
        return [row for row in self.tables.get(name, []) if row]


def number(raw):
    return float(raw) if raw else None


def ratio_of(pairs, metric, confidence):
    """Estimate and ends of numerator ÷ denominator over pairs of trials of one place; None where there is no ratio."""
    seen, kept, grains, closed = set(), [], [], {"control", "state"} | indifferent([t for pair in pairs for t in pair], metric)
    for over, under in pairs:
        a, b = under.metrics.get(metric), over.metrics.get(metric)
        if a is None or b is None or np.mean(a["samples"]) <= 0 or np.mean(b["samples"]) <= 0:
            continue
        runs = (b["run"], a["run"])
        if runs != (None, None) and (runs[0] == runs[1] or runs in seen):
            continue
        seen.add(runs)
        cell = tuple(sorted((k, str(v)) for k, v in over.factors.items() if k not in closed))
        kept.append((cell, over.repeat, a["samples"], b["samples"]))
        grains += [grain(trial, metric, True) for trial in (over, under)]
    if not kept:
        return None
    logs = all((v > 0).all() for *_, a, b in kept for v in (a, b))

    def on(v):
        return np.log(v) if logs else np.log([np.mean(v)])

    found = paired([(cell, repeat, on(a), on(b)) for cell, repeat, a, b in kept], confidence)
    found = coarse(found, len({cell for cell, *_ in kept}), grains, confidence)
    ends = [None if end is None else math.exp(end) for end in (found.low, found.high)]
    if found.constant and found.smallest_p() > 1 - confidence:
        ends = [None, None]
    return (math.exp(found.value), *ends)


def by_cell(trials, path, value):
    """Trials that have this value of a factor, by their other factors and repeat; None: that lack the factor."""

    def key(trial):
        return (tuple(sorted((k, str(v)) for k, v in trial.factors.items() if k != path)), trial.repeat)

    return {key(t): t for t in trials if t.factors.get(path) == value}


def triples(check, what, ours, theirs):
    """Compares estimates with their ends, whatever their order."""
    check.that(f"{what}: rows", len(ours), len(theirs))
    order = lambda row: tuple(-math.inf if x is None else x for x in row)  # noqa: E731
    for one, other in zip(sorted(ours, key=order), sorted(theirs, key=order)):
        for name, x, y in zip(("ratio", "low", "high"), one, other):
            check.that(f"{what}: {name}", x, y)


def control_rows(check, store, trials, page, confidence):
    rows = 0
    for kind, said in (("same", "measured twice"), ("slow", "known slowdown"), ("extra", "added requests")):
        theirs = {}
        for row in (row for row in page if row[0] == said):
            theirs.setdefault(row[1], []).append(tuple(number(raw) for raw in row[3:6]))
        controls, plain = by_cell(trials, "control", kind), by_cell(trials, "control", None)
        cells = {}
        for key, trial in controls.items():
            if key in plain:
                cells.setdefault(key[0], []).append((trial, plain[key]))
        for metric, found in sorted(theirs.items()):
            ours = []
            for pairs in cells.values():
                series = next((a.metrics[metric] for a, _ in pairs if metric in a.metrics), None)
                if series is not None:
                    turned = kind != "same" and series["worse"] is False
                    sides = [(b, a) for a, b in pairs] if turned else pairs
                    ours += filter(None, [ratio_of(sides, metric, confidence)])
            triples(check, f"{store}: control {kind}: {metric}", ours, found)
            rows += len(found)
    return rows


def age_rows(check, store, trials, page, confidence):
    trials, theirs, rows = [t for t in trials if "control" not in t.factors], {}, 0
    for row in page:
        if row[3].endswith("÷ unaged"):
            key = (row[0], row[1], row[2])
            theirs.setdefault(key, []).append(tuple(number(raw) for raw in row[6:9]))
    aged, unaged = (by_cell(trials, "state", state) for state in ("aged", "unaged"))
    names = sorted({metric for trial in trials for metric in trial.metrics})
    for (measure, what, kind), found in sorted(theirs.items()):
        ours = []
        for metric in names:
            first, _, last = metric.partition(".")
            if last and last not in BESIDE:
                continue
            words = last.replace("_", " ").replace("-", " ")
            if first.replace("-", " ").replace("_", " ") != measure or (last and words != what):
                continue
            if not last and what not in ("time", "throughput"):
                continue
            media = {}
            for key, trial in aged.items():
                if key in unaged and trial.factors.get("file_system.kind", kind) == kind:
                    media.setdefault(trial.factors.get("volume.medium"), []).append((trial, unaged[key]))
            for pairs in media.values():
                ours += filter(None, [ratio_of(pairs, metric, confidence)])
        triples(check, f"{store}: aged ÷ unaged: {measure}, {what}, {kind}", ours, found)
        rows += len(found)
    return rows


# ---- what the page's tables say, as data (`fsage report --json`) ----


def alike(have, want):
    """Equal, with numbers compared as numbers; tables of a factor are JSON in the export."""
    if isinstance(want, bool) or isinstance(have, (bool, np.bool_)):
        return str(have).lower() == str(want).lower()
    try:
        return math.isclose(float(have), float(want), rel_tol=1e-9)
    except (TypeError, ValueError):
        return json.loads(have) == want if isinstance(want, (dict, list)) and isinstance(have, str) else have == want


class Judge:
    """The estimator on the trials of a store, with what `trial.json` says of their settings."""

    def __init__(self, store, trials, confidence):
        self.trials, self.confidence, self.specs = trials, confidence, {}
        for trial in trials:
            self.specs[trial.id] = json.loads((Path(store) / "trials" / trial.id / "trial.json").read_text())["spec"]

    def setting(self, trial, path):
        at = self.specs[trial.id]
        for part in path.split("."):
            if isinstance(at, list):
                at = next((one for one in at if (one.get("name") or one.get("kind")) == part), None)
            else:
                at = at.get(part) if isinstance(at, dict) else None
        return at

    def factor(self, trial, path):
        return trial.factors[path] if path in trial.factors else self.setting(trial, path)

    def applies(self, trial, path):
        """Whether a factor can make a difference: one of a stage that the state leaves out cannot."""
        if not path.startswith("stage."):
            return True
        when = self.setting(trial, f"stage.{path.split('.')[1]}.when")
        return not when or self.setting(trial, "state") in when

    def fits(self, trial, cells):
        have = ((self.factor(trial, path), want) for path, want in cells.items())
        return all(value is not None and alike(value, want) for value, want in have)

    def pairs(self, trials, over, under):
        named = {*over, *under}

        def agree(a, b):
            def same(path):
                return b.factors.get(path) == a.factors[path] or not (self.applies(a, path) and self.applies(b, path))

            return a.repeat == b.repeat and all(same(path) for path in a.factors if path not in named)

        below = [b for b in trials if self.fits(b, under)]
        return [(a, b) for a in trials if self.fits(a, over) for b in below if agree(a, b)]

    def estimate(self, found, n):
        back = {"n": n, "units": found.units, "value": found.value, "p": found.p, "low": found.low, "high": found.high}
        if found.constant and found.smallest_p() > 1 - self.confidence:
            back["low"] = back["high"] = None
        return back

    def ratio(self, pairs, metric, confidence=None):
        """Of pairs of numerator and denominator; None where there is none."""
        apart_by = indifferent([trial for pair in pairs for trial in pair], metric)
        pairs = once_in_pairs(pairs, metric)
        for a, b in pairs:
            differ = (path for path, value in a.factors.items() if b.factors.get(path) != value)
            apart_by |= {path for path in differ if self.applies(a, path) and self.applies(b, path)}
        kept, means = {}, lambda trial: np.mean(trial.metrics[metric]["samples"])
        known = [(a, b) for a, b in pairs if metric in a.metrics and metric in b.metrics and min(means(a), means(b)) > 0]
        if not known:
            return None
        logs = all((trial.metrics[metric]["samples"] > 0).all() for pair in known for trial in pair)
        for a, b in known:
            cell = tuple(sorted((k, str(v)) for k, v in a.factors.items() if k not in apart_by))
            kept.setdefault((cell, a.repeat), []).append([centre(t.metrics[metric]["samples"], logs) for t in (b, a)])
        nested = [(cell, seed, *([x] for x in np.mean(v, axis=0))) for (cell, seed), v in kept.items()]
        found = paired(nested, confidence or self.confidence)
        grains = [grain(trial, metric, True) for pair in known for trial in pair]
        found = coarse(found, len({cell for cell, _ in kept}), grains, confidence or self.confidence)
        estimate = self.estimate(found, len(known))
        return {k: math.exp(v) if k in ("value", "low", "high") and v is not None else v for k, v in estimate.items()}

    def level(self, trials, metric, confidence=None):
        apart_by, seen, known = indifferent(trials, metric), set(), []
        for trial in trials:
            series = trial.metrics.get(metric)
            if series is None or (series["run"] is not None and series["run"] in seen):
                continue
            seen.add(series["run"])
            known.append((trial, series))
        if not known:
            return None
        log = by_ratio(metric, known[0][1]["unit"]) and any(np.mean(s["samples"]) > 0 for _, s in known)
        all_of, zeros = len(known), 0
        if log:
            known = [(t, s) for t, s in known if np.mean(s["samples"]) > 0]
            zeros = all_of - len(known)
        logs = all((s["samples"] > 0).all() for _, s in known)
        cells = {}
        for trial, series in known:
            cell = tuple(sorted((k, str(v)) for k, v in trial.factors.items() if k not in apart_by))
            value = centre(series["samples"], logs) if log else np.mean(series["samples"])
            cells.setdefault(cell, {}).setdefault(trial.repeat, []).append(value)
        cells = [{seed: np.mean(v) for seed, v in cell.items()} for cell in cells.values()]
        means, units, spread = [np.mean(list(c.values())) for c in cells], min(map(len, cells)), influence(cells)
        if spread is None:
            found = Found(np.mean(means), 0, 0, "no interval: one unit", units, units)
        else:
            found = Found(np.mean(means), math.sqrt(spread[0]), spread[1], "Student's t", units, units)
            scale = max(abs(x) for cell in cells for x in cell.values())
            found = tested(found, scale, means, "signs (no spread)", confidence or self.confidence)
        estimate = self.estimate(found, len(known))
        if zeros:
            estimate["low"] = estimate["high"] = None
        if log:
            ends = ("value", "low", "high")
            estimate = {k: math.exp(v) if k in ends and v is not None else v for k, v in estimate.items()}
        return estimate


def centre(rounds, logs):
    return np.mean(np.log(rounds)) if logs else math.log(np.mean(rounds))


def once_in_pairs(pairs, metric):
    """Of pairs that have the metric from the same two runs the first, of those from one run none."""

    def run(trial):
        return trial.metrics.get(metric, {}).get("run")

    def same(a, b):
        return a is b or (run(a) is not None and run(a) == run(b))

    kept = []
    for a, b in pairs:
        shared = run(a) is not None or run(b) is not None
        if not shared or not (same(a, b) or any(same(a, c) and same(b, d) for c, d in kept)):
            kept.append((a, b))
    return kept


def check_number(check, what, ours, theirs):
    if (ours is None) != (theirs is None):
        check.that(f"{what}: is there", ours is not None, theirs is not None)
        return
    if theirs is not None:
        for name in ("value", "low", "high", "n", "units"):
            check.that(f"{what}: {name}", ours[name], theirs[name])


def bounds(clause):
    margin = clause.get("margin")
    return (clause.get("above"), clause.get("below")) if margin is None else (1 / (1 + margin), 1 + margin)


def verdict_of(estimate, clause):
    above, below = bounds(clause)
    low, high = (estimate["value"] if estimate[end] is None else estimate[end] for end in ("low", "high"))
    if estimate["units"] < 3 or estimate["low"] is None:
        return "in this run"
    if (above is None or low > above) and (below is None or high < below):
        return "holds"
    if (above is not None and high <= above) or (below is not None and low >= below):
        return "contradicted"
    return "compatible with both"


def sides_of(clause):
    return [clause["numerator"], clause["denominator"]] if clause["kind"] == "ratio" else [clause.get("where", {})]


def parts_of(judge, claim, matrix, trials):
    """Clause and trials of every part that is judged by itself, in fsage's order."""
    clauses, each = [claim["check"]] if claim.get("check") else claim.get("all", []), claim.get("each")
    parts = []
    for clause in clauses:
        sides = sides_of(clause)
        named = {path for side in sides for path in side} | {each}
        for value in (matrix.get(each) or [None]) if each else [None]:

            def has(trial, value=value):
                if value is None or not judge.applies(trial, each):
                    return True
                have = judge.factor(trial, each)
                return have is not None and alike(have, value)

            own, places = [t for t in trials if has(t)], {}
            for trial in own:
                if any(judge.fits(trial, side) for side in sides):
                    fixed = [str(trial.factors[k]) for k in PLACES if k in trial.factors and k not in named]
                    places.setdefault(", ".join(fixed), []).append(trial)
            split = [own] if len(places) < 2 else [places[place] for place in sorted(places)]
            parts += [(clause, one) for one in split]
    return parts


def measured(judge, clause, trials, confidence=None):
    if clause["kind"] == "ratio":
        pairs = judge.pairs(trials, clause["numerator"], clause["denominator"])
        return judge.ratio(pairs, clause["metric"], confidence)
    return judge.level([t for t in trials if judge.fits(t, clause.get("where", {}))], clause["metric"], confidence)


def whole(verdicts):
    if "contradicted" in verdicts:
        return "contradicted"
    if len(set(verdicts)) == 1:
        return verdicts[0]
    order = ("compatible with both", "in this run", "not comparable")
    return next((verdict for verdict in order if verdict in verdicts), "holds")


def claim_rows(check, store, judge, theirs, matrix, controls_failed):
    """Every claim's numbers and verdict. What was not measured by fsage's account (a condition that is not met, a warning, different work)
    is taken as said, and trends, whose ticks are not exported."""
    rows = 0
    for found in theirs:
        claim, what = found["claim"], f"{store}: claim {found['claim']['id']}"
        told = found["parts"] or [found]
        parts = parts_of(judge, claim, matrix, judge.trials)
        if not parts:
            check.that(f"{what}: verdict", "not comparable", found["verdict"])
            continue
        check.that(f"{what}: parts", len(parts), len(told))
        verdicts = []
        for number_, ((clause, trials), other) in enumerate(zip(parts, told)):
            if clause["kind"] == "trend" or other["measured"] is None:
                verdicts.append(other["verdict"])
                continue
            ours = measured(judge, clause, trials)
            check_number(check, f"{what}, part {number_}", ours, other["measured"])
            verdicts.append(verdict_of(ours, clause) if ours else "not comparable")
            rows += 1
        # Contradictions of several parts, step by step (Holm).
        tested_parts = left = sum(other["measured"] is not None for other in told)
        open_ = [i for i, verdict in enumerate(verdicts) if verdict == "contradicted" and parts[i][0]["kind"] != "trend"]
        while left > 1:
            strict = 1 - (1 - judge.confidence) / left
            again = (i for i in open_ if verdict_of(measured(judge, *parts[i], strict), parts[i][0]) == "contradicted")
            survivor = next(again, None)
            if survivor is None:
                break
            open_.remove(survivor)
            left -= 1
        if left > 1 and tested_parts > 1:
            for i in open_:
                verdicts[i] = "compatible with both"
        if controls_failed:
            verdicts = ["not comparable"] * len(verdicts)
        for number_, (verdict, other) in enumerate(zip(verdicts, told)):
            check.that(f"{what}, part {number_}: verdict", verdict, other["verdict"])
        check.that(f"{what}: verdict", whole(verdicts), found["verdict"])
    return rows


def triple(estimate):
    return tuple(estimate[name] for name in ("value", "low", "high"))


def difference_rows(check, store, judge, theirs, left_out):
    """Pairs of values of each factor, over the contexts of one file system and medium and in each apart."""
    rows, by_metric = 0, {}
    for row in theirs:
        by_metric.setdefault((row["metric"], row["factor"]), []).append(row)
    for (metric, path), found in sorted(by_metric.items()):
        without = indifferent(judge.trials, metric)
        values = []
        for trial in judge.trials:
            if path in trial.factors and trial.factors[path] not in values:
                values.append(trial.factors[path])
        said = {row["sides"] for row in found}
        try:
            values.sort(key=float)
        except (TypeError, ValueError):
            values.sort(key=str)
        ours = []
        for i, low in enumerate(values):
            for high in values[i + 1:]:
                # File systems have an order of their own, which the words tell.
                over, under = (low, high) if f"{low} ÷ {high}" in said else (high, low)
                places = {}
                for a, b in judge.pairs(judge.trials, {path: over}, {path: under}):
                    place = tuple(str(a.factors[k]) for k in PLACES if k in a.factors and k != path)
                    context = tuple((k, str(v)) for k, v in sorted(a.factors.items()) if k not in without | {path})
                    places.setdefault(place, {}).setdefault(context, []).append((a, b))
                for contexts in places.values():
                    every = [pair for pairs in contexts.values() for pair in pairs]
                    some = ([every] if len(contexts) > 1 else []) + list(contexts.values())
                    ours += [triple(e) for e in (judge.ratio(pairs, metric) for pairs in some) if e]
        what = f"{store}: difference: {metric}, {path}"
        if not left_out:
            triples(check, what, ours, [triple(row["measured"]) for row in found])
        else:
            near = lambda x, y: x == y or None not in (x, y) and math.isclose(x, y, rel_tol=TOLERANCE)  # noqa: E731
            for row in found:
                value = triple(row["measured"])
                same = any(all(near(x, y) for x, y in zip(one, value)) for one in ours)
                check.that(f"{what}, {row['sides']}, {row['context']}", same, True)
        rows += len(found)
    p = [1.0 if row["measured"]["p"] is None else row["measured"]["p"] for row in theirs]
    for row, adjusted in zip(theirs, benjamini_hochberg(p)):
        low, high = row["measured"]["low"], row["measured"]["high"]
        beside = low is not None and (low > 1 or high < 1)
        check.that(f"{store}: {row['metric']}, {row['sides']}: survives", bool(adjusted <= 0.05 and beside), row["survives"])
    return rows


def lockstep_rows(check, store, judge, theirs):
    by_metric, cells = {}, {}
    for row in theirs:
        by_metric.setdefault(row["metric"], []).append(triple(row["measured"]))
    for trial in judge.trials:
        cells.setdefault(tuple(sorted((k, str(v)) for k, v in trial.factors.items())), []).append(trial)
    for metric, found in sorted(by_metric.items()):
        ours = [triple(e) for e in (judge.level(trials, metric) for trials in cells.values()) if e]
        triples(check, f"{store}: lock-step: {metric}", ours, found)
    return len(theirs)


def remedy_rows(check, store, judge, theirs):
    if not theirs:
        return 0
    stages = next(s["stage"] for s in judge.specs.values() if any(one["kind"] == "remedy" for one in s["stage"]))
    named = [(one["kind"], one.get("name") or one["kind"]) for one in stages]
    at = next(i for i, (kind, _) in enumerate(named) if kind == "remedy")
    before = [name for kind, name in named[:at] if kind == "measure"][-1]
    after = [name for kind, name in named[at:] if kind == "measure"]
    path, places = f"stage.{named[at][1]}.method", {}
    for trial in judge.trials:
        method = judge.factor(trial, path)
        if method is not None:
            place = tuple(sorted((k, str(v)) for k, v in trial.factors.items() if k != path))
            places.setdefault(place, {}).setdefault(method, []).append(trial)
    told = {}
    for row in theirs:
        told.setdefault((row["method"], row["measure"]), []).append(row)
    for (method, measure), found in sorted(told.items()):
        def against(other, stage):
            for methods in places.values():
                if method in methods and other in methods:
                    both = [*methods[method], *methods[other]]
                    yield judge.ratio(judge.pairs(both, {path: method}, {path: other}), f"{stage}.{measure}")

        gains = (judge.level(m[method], f"{after[0]}_over_{before}.{measure}") for m in places.values() if method in m)
        ours = {"gain": gains, "against_control": against("none", after[0]), "against_copy": against("copy", after[0])}
        if len(after) > 1:
            ours["later"] = against("none", after[1])
        for name, estimates in ours.items():
            # What did other work has no ratio by fsage's account: every one that it has must be among ours.
            mine = [triple(estimate) for estimate in estimates if estimate]
            for row in (row for row in found if row[name] is not None):
                value = triple(row[name])
                near = lambda x, y: x == y or None not in (x, y) and math.isclose(x, y, rel_tol=TOLERANCE)  # noqa: E731
                same = any(all(near(x, y) for x, y in zip(one, value)) for one in mine)
                check.that(f"{store}: {row['place']}: {method}, {measure}: {name} {value} among {mine}", same, True)
    return len(theirs)


def check_findings(check, store, trials, said):
    judge = Judge(store, [t for t in trials if "control" not in t.factors], said["confidence"])
    matrix = json.loads((Path(store) / "plan.json").read_text())["study"].get("matrix", {})
    failed = (said["controls"] or {}).get("verdict") == "failed"
    counts = {
        "claims": claim_rows(check, store, judge, said["claims"], matrix, failed),
        "differences": difference_rows(check, store, judge, said["differences"], said["differences_left_out"]),
        "lock-step": lockstep_rows(check, store, judge, said["lockstep"]),
        "remedies": remedy_rows(check, store, judge, said["remedies"]),
    }
    return counts


def check_report(check, fsage, store, folder):
    page = folder / "page.html"
    command = [fsage, "report", store, "-o", page, "--quiet", "--json"]
    said = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["findings"]
    tables, trials = Tables(page.read_text()), trials_of(exported(fsage, store, folder))
    confidence = said["confidence"]
    counts = check_findings(check, store, trials, said)
    counts["controls"] = control_rows(check, store, trials, tables.rows("control-table"), confidence)
    counts["ageing slowdowns"] = age_rows(check, store, trials, tables.rows("age-cost-table"), confidence)
    print(f"{store}: " + ", ".join(f"{number} rows of {what}" for what, number in counts.items()), file=sys.stderr)
    return sum(counts.values())


def check_formats(check, fsage, store, folder):
    """pandas and DuckDB read each format and find the same rows."""
    import jsonschema
    from prometheus_client.openmetrics import parser

    paths = {kind: exported(fsage, store, folder, kind) for kind in ("parquet", "csv", "json", "openmetrics")}
    key = ["trial", "metric", "sample"]
    text = {"trial": str, "study": str, "metric": str, "unit": str}
    families = {f.name: f.samples for f in parser.text_string_to_metric_families(paths["openmetrics"].read_text())}
    samples = pd.DataFrame([{**s.labels, "value": s.value} for s in families["fsage_sample"]])
    samples["sample"] = samples["sample"].astype(int)
    facts = pd.DataFrame([s.labels for s in families["fsage_trial"]])
    assert duckdb.sql("SELECT count(*) FROM samples JOIN facts USING (trial)").fetchall()[0][0] == len(samples)
    read = {
        "pandas, parquet": pd.read_parquet(paths["parquet"]),
        "pandas, csv": pd.read_csv(paths["csv"], dtype=text),
        "pandas, json": pd.read_json(paths["json"], precise_float=True, dtype=False),
        "pandas, openmetrics": samples,
        "DuckDB, parquet": duckdb.sql(f"SELECT * FROM read_parquet('{paths['parquet']}')").df(),
        "DuckDB, csv": duckdb.sql(
            f"SELECT * FROM read_csv('{paths['csv']}', types={{'trial': 'VARCHAR', 'study': 'VARCHAR'}})"
        ).df(),
        "DuckDB, json": duckdb.sql(f"SELECT * FROM read_json('{paths['json']}')").df(),
        "DuckDB, openmetrics": duckdb.sql("SELECT * FROM samples").df(),
    }
    wanted = read["pandas, parquet"].sort_values(key).reset_index(drop=True)
    for how, table in read.items():
        table = table.sort_values(key).reset_index(drop=True)
        check.that(f"{store}: {how}: rows", len(table), len(wanted))
        if not how.endswith("openmetrics"):
            check.that(f"{store}: {how}: columns", list(table.columns), list(wanted.columns))
        for column in [*key, "value", "unit"]:
            agree = (table[column].to_numpy() == wanted[column].to_numpy()).all()
            check.that(f"{store}: {how}: {column} is exact", bool(agree), True)
    rows = json.loads(paths["json"].read_text())
    schema = json.loads((ROOT / "docs/export.schema.json").read_text())
    problems = list(jsonschema.Draft202012Validator(schema).iter_errors(rows))
    check.that(f"{store}: rows against the schema", [p.message for p in problems[:3]], [])
    return len(wanted)


# ---- stores to check on ----


def kept_stores(folder):
    """The stores that an earlier fsage wrote, which the tests keep."""
    import io
    import tarfile

    import pyarrow

    archive = ROOT / "crates/cli/tests/data/stores/format-3.tar.zst"
    with pyarrow.CompressedInputStream(pyarrow.OSFile(str(archive)), "zstd") as stream:
        with tarfile.open(fileobj=io.BytesIO(stream.read())) as tar:
            tar.extractall(folder, filter="data")
    return folder / "kept", folder / "kept-lockstep"


def claims():
    """Claims of every kind about the simulated numbers."""
    aged, fresh = {"state": "aged"}, {"state": "fresh"}

    def of_ratio(metric, **condition):
        return {"kind": "ratio", "metric": metric, "numerator": aged, "denominator": fresh, **condition}

    def of_value(metric, where, **condition):
        return {"kind": "value", "metric": metric, "where": where, **condition}

    every = [
        {"check": of_ratio("time", above=1.0)},
        {"check": of_ratio("time", below=1.0)},
        {"check": of_ratio("noise", margin=0.2)},
        {"check": of_ratio("rate", below=1.0), "each": "file_system.kind"},
        {"check": of_ratio("heavy", above=0.8, below=1.6), "each": "use"},
        {"check": of_ratio("shared", above=1.05)},
        {"check": of_ratio("zeros", above=1.0)},
        {"check": of_ratio("gaps", above=3.0)},
        {"check": of_ratio("once", above=1.0)},
        {"check": of_value("share", aged, above=0.3, below=0.6)},
        {"check": of_value("constant", {**fresh, "use": 0.8}, above=2.0), "each": "file_system.kind"},
        {"check": of_value("model", {"file_system.kind": "xfs"}, below=1.0)},
        {"all": [of_ratio("time", above=1.0), of_ratio("rate", above=1.2), of_ratio("noise", below=0.97)]},
        {"all": [of_ratio("time", above=1.0), of_value("time", aged, below=9.0)]},
        {"not_tested": "it cannot be simulated"},
        {"check": of_value("no such metric", aged, above=1.0)},
    ]
    texts = {"source": "made up", "statement": "made up", "published": "made up"}
    return [{"id": f"claim-{number}", **texts, **claim} for number, claim in enumerate(every)]


def simulated_remedies(template, path, repeats, random):
    """A store with made-up numbers of remedies, of which one leaves other work to do."""
    plan = json.loads((template / "plan.json").read_text())
    record = json.loads(next(template.glob("trials/*/trial.json")).read_text())
    (path / "trials").mkdir(parents=True)
    plan["trials"] = []
    cells = [(kind, method) for kind in ("ext4", "xfs") for method in ("none", "copy", "defragment", "free-20")]
    measure = next(one for one in plan["study"]["stage"] if one["kind"] == "measure")
    for repeat in repeats:
        before = 100 * math.exp(0.1 * random.normal())
        for cell, (kind, method) in enumerate(cells):
            trial = f"{random.integers(1 << 60):016x}"
            factors = {"file_system.kind": kind, "stage.remedy.method": method}
            gain = {"none": 1.0, "copy": 0.3, "defragment": 0.6, "free-20": 0.9}[method]
            after = before * gain * math.exp(0.02 * random.normal())
            later = before * math.sqrt(gain) * math.exp(0.05 * random.normal())
            numbers = {"grep": (before, "s"), "after.grep": (after, "s"), "later.grep": (later, "s")}
            if method != "free-20":
                numbers["after_over_before.grep"] = (after / before, "ratio")
            metrics = [
                {"name": name, "unit": unit, "samples": [value], "larger_is_worse": True}
                for name, (value, unit) in numbers.items()
            ]
            stages = [{**measure, "name": "before"}, {"kind": "remedy", "name": "remedy", "method": method}]
            stages += [{**measure, "name": name} for name in ("after", "later")]
            spec = {**record["spec"], "stage": stages, "file_system": {"kind": kind}}
            plan["trials"].append({"id": trial, "cell": cell, "repeat": repeat, "seed": repeat, "factors": factors})
            new = {**record, "id": trial, "repeat": repeat, "factors": factors, "spec": spec, "metrics": metrics}
            new.update(stages=[], warnings=[], layout=None)
            (path / "trials" / trial).mkdir()
            (path / "trials" / trial / "trial.json").write_text(json.dumps(new))
    (path / "plan.json").write_text(json.dumps(plan))
    return path


def simulated(template, path, repeats, random, effect):
    """A store with made-up numbers of every shape, in the form of `template`."""
    plan = json.loads((template / "plan.json").read_text())
    record = json.loads(next(template.glob("trials/*/trial.json")).read_text())
    (path / "trials").mkdir(parents=True)
    plan["trials"] = []
    matrix = {"state": ["aged", "fresh"], "file_system.kind": ["ext4", "xfs"], "use": [0.8, 0.99]}
    plan["study"].update(claim=claims(), matrix=matrix)
    cells = [(s, k, u) for s in ("aged", "fresh") for k in ("ext4", "xfs") for u in (0.8, 0.99)]
    for repeat in repeats:
        of_seed = random.normal()
        for cell, (state, kind, use) in enumerate(cells):
            trial = f"{random.integers(1 << 60):016x}"
            factors = {"state": state, "file_system.kind": kind, "use": use}
            centre = (2.0 if kind == "xfs" else 1.0) * (use + 0.3)
            slow = effect if state == "aged" else 1.0
            metrics = []

            def add(name, unit, samples, worse=True, run=None):
                one = {"name": name, "unit": unit, "samples": [float(x) for x in samples], "larger_is_worse": worse}
                metrics.append(one if run is None else {**one, "run": run})

            def near(spread, n=1):
                return centre * np.exp(spread * (random.normal(size=n) + 0.5 * of_seed))

            add("time", "s", slow * near(0.03))
            add("time.rounds", "ns", 1e6 * slow * near(0.05, 4))
            add("rate", "1/s", 500 / slow * near(0.02, 2), worse=False)
            add("model", "model ns", 1e5 * near(0.2, 3))
            add("noise", "s", near(0.1))
            add("bytes", "bytes", np.round(4096 * near(0.1)), worse=None)
            add("share", "share", np.clip(0.4 * slow + 0.02 * random.normal(size=1), 0, 1), worse=False)
            add("signed", "count", random.normal(size=2) + (slow - 1))
            add("zeros", "count", [0.0, centre])
            add("constant", "s", [3.0 * slow])
            add("same", "s", [7.0])
            add("latency.read.mean_ns", "ns", 1e4 * slow * near(0.04))
            add("latency.create.p99_ns", "ns", 1e5 * near(0.3))
            add("heavy", "s", centre * np.exp(0.1 * random.standard_t(2, size=1)))
            if repeat == repeats[0]:
                add("once", "s", near(0.1))
            if not (repeat == repeats[-1] and state == "aged"):
                add("gaps", "s", slow * near(0.1))
            # What came before an image: the same run whatever `use` is.
            own = np.random.default_rng([state == "aged", kind == "xfs", repeat])
            add("shared", "s", [slow * math.exp(0.1 * own.normal())], run=f"{path.name}-{state}-{kind}-{repeat}")
            seed = int(random.integers(1 << 53))
            plan["trials"].append(
                {"id": trial, "cell": cell, "repeat": repeat, "seed": seed, "factors": factors}
            )
            new = {**record, "id": trial, "repeat": repeat, "seed": seed, "factors": factors}
            new.update(metrics=metrics, stages=[], warnings=[], layout=None)
            (path / "trials" / trial).mkdir()
            (path / "trials" / trial / "trial.json").write_text(json.dumps(new))
    (path / "plan.json").write_text(json.dumps(plan))
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sides", nargs="*", metavar="SIDE", help="two stores or selections, as `fsage compare` takes them")
    parser.add_argument("--fsage", default=str(ROOT / "bin/fsage"), help="the program [default: bin/fsage]")
    parser.add_argument("--report", metavar="STORE", help="check the page of this store")
    parser.add_argument("--fail-if", action="append", default=[], metavar="EXPR", help="a gate (may be repeated)")
    args = parser.parse_args()
    if len(args.sides) not in (0, 2):
        parser.error("give two sides, or none")
    check, rows, samples = Check(), 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if args.report:
            rows = check_report(check, args.fsage, args.report, folder)
            if rows == 0:
                sys.exit(f"recompute: the report of {args.report} has nothing to check")
        elif args.sides:
            rows = check_comparison(check, args.fsage, *args.sides, args.fail_if, folder)
        else:
            kept, lockstep = kept_stores(folder / "stores")
            random = np.random.default_rng(20261123)
            stores = {
                n: simulated(kept, folder / n, repeats, random, effect)
                for n, repeats, effect in [
                    ("three", [0, 1, 2], 1.2), ("seven", list(range(7)), 1.02), ("later", [10, 11, 12, 13], 1.5),
                    ("one", [20], 1.3), ("two", [0, 1], 1.1),
                ]
            }
            for store in [kept, lockstep, stores["three"], stores["later"]]:
                samples += check_formats(check, args.fsage, store, folder)
            stores["remedies"] = simulated_remedies(kept, folder / "remedies", range(5), random)
            for store in [kept, lockstep, *stores.values()]:
                rows += check_report(check, args.fsage, store, folder)
            del stores["remedies"]
            gates = ["time > 1.10", "noise > 1.05", "s* > 1.3", "rate < 0.9", "constant > 1.1", "signed > 2"]
            pairs = [(f"{kept}:state=aged", f"{kept}:state=unaged", ["grep > 1.0", "layout > 1.05"])]
            pairs += [(f"{p}:state=fresh", f"{p}:state=aged", gates) for p in stores.values()]
            pairs += [(f"{p}:file_system.kind=ext4", f"{p}:file_system.kind=xfs", []) for p in stores.values()]
            pairs += [(str(stores["three"]), str(stores[n]), gates) for n in ("seven", "later", "one", "two")]
            pairs += [(str(stores["one"]), str(stores["later"]), gates)]
            for a, b, with_gates in pairs:
                rows += check_comparison(check, args.fsage, a, b, with_gates, folder)
    done = f"{check.numbers} values of {rows} rows"
    done += f", {samples} samples in four formats" if samples else ""
    if check.failures:
        sys.exit(f"recompute: {check.failures} of {done} disagree")
    print(f"recompute: {done} agree")


if __name__ == "__main__":
    main()
