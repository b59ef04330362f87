#!/bin/sh
# Runs a study and gives tmt its findings. Report, table of samples and what fsage said are the logs of the result.
#
# FSAGE   the program, with its whole path; `fsage` of the PATH if it is not set
# STUDY, OPTIONS, CONTRADICTED   see study.fmf

set -u
here=$(dirname "$(readlink -f "$0")")
data=${TMT_TEST_DATA:?is set by tmt; to run a study without it, use fsage run}
fsage=${FSAGE:-fsage}
contradicted=${CONTRADICTED:-warn}

case $contradicted in
fail | warn | info) ;;
*)
    echo "CONTRADICTED is $contradicted: give fail, warn or info" >&2
    exit 2
    ;;
esac
if ! command -v "$fsage" >/dev/null; then
    echo "$fsage was not found: install fsage, or give its whole path with FSAGE" >&2
    exit 3
fi

# Options are several words, and none of them is a pattern of file names.
set -f
# shellcheck disable=SC2086
"$fsage" run "$STUDY" ${OPTIONS:-} --store "$data/store" >"$data/answer.txt" 2>"$data/progress.txt"
status=$?
cat "$data/answer.txt" "$data/progress.txt"
if [ -d "$data/store" ]; then
    "$fsage" report "$data/store" --json -o "$data/report.html" >"$data/findings.json"
    "$fsage" export "$data/store" --format csv -o "$data/samples.csv"
fi
python3 "$here/results.py" "$data" "$status" "$contradicted"
