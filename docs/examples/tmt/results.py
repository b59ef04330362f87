#!/usr/bin/env python3
"""Writes the findings of a study as results of tmt: results.yaml in the folder of the test's data.

    results.py FOLDER STATUS CONTRADICTED

FOLDER has findings.json (`fsage report --json`), STATUS is the exit status of `fsage run`, CONTRADICTED the result of a finding that is contradicted.
"""

import json
import pathlib
import re
import sys

# Every other verdict, such as "not comparable", decides nothing: info.
VERDICTS = {"holds": "pass"}
LOGS = ["answer.txt", "progress.txt", "report.html", "samples.csv", "findings.json"]


def name(identifier):
    """The name of a result: tmt's are paths."""
    return "/finding/" + re.sub(r"[^A-Za-z0-9_.-]", "-", identifier)


def results(folder, status, contradicted):
    """The result of the test itself, then those of its findings."""
    logs = [log for log in LOGS if (folder / log).is_file()]
    whole = "pass" if status == 0 else "fail"
    note = [] if status == 0 else [f"fsage run ended with status {status}"]
    try:
        claims = json.loads((folder / "findings.json").read_text())["findings"]["claims"]
    except (OSError, ValueError, KeyError) as error:
        return [{"name": "/", "result": "error", "note": [*note, f"no findings: {error}"], "log": logs}]
    found = [{"name": "/", "result": whole, "note": note, "log": logs}]
    for one in claims:
        claim, verdict = one["claim"], one["verdict"]
        found.append(
            {
                "name": name(claim["id"]),
                "result": contradicted if verdict == "contradicted" else VERDICTS.get(verdict, "info"),
                "note": [f"{verdict}: {claim['statement']}", *([one["reason"]] if one.get("reason") else [])],
                "log": ["report.html"] if "report.html" in logs else [],
            }
        )
    return found


def main():
    folder, status, contradicted = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    found = results(folder, status, contradicted)
    # JSON is YAML.
    (folder / "results.yaml").write_text(json.dumps(found, indent=1) + "\n")
    for one in found:
        print(one["result"], one["name"], *one["note"])


if __name__ == "__main__":
    main()
