#!/bin/sh
# Runs a study and gives tmt its findings. Report, table of samples and what fsage said are the logs of the result.
#
# FSAGE   the program; `fsage` of the PATH where it is not set
# STUDY, OPTIONS, CONTRADICTED   see study.fmf

set -u
here=$(dirname "$(readlink -f "$0")")
data=${TMT_TEST_DATA:?is set by tmt; to run a study without it, use fsage run}
fsage=${FSAGE:-fsage}

# Options are several words.
# shellcheck disable=SC2086
"$fsage" run "$STUDY" ${OPTIONS:-} --store "$data/store" >"$data/answer.txt" 2>"$data/progress.txt"
status=$?
cat "$data/answer.txt" "$data/progress.txt"
"$fsage" report "$data/store" --json -o "$data/report.html" >"$data/findings.json"
"$fsage" export "$data/store" --format csv -o "$data/samples.csv"
python3 "$here/results.py" "$data" "$status" "${CONTRADICTED:-warn}"
