#!/bin/sh
# The same as a task of Beaker: results go to restraint (`rstrnt-report-result`), or to standard output where it is not there.
# FSAGE, STUDY, OPTIONS and CONTRADICTED as in study.fmf; a job sets them with <param>.

set -u
here=$(dirname "$(readlink -f "$0")")
TMT_TEST_DATA=$(mktemp -d)
export TMT_TEST_DATA
STUDY=${STUDY:-aging} OPTIONS=${OPTIONS---quick}
export STUDY OPTIONS
sh "$here/../run.sh"
report() {
    if command -v rstrnt-report-result >/dev/null; then
        rstrnt-report-result -o "$3" "$1" "$2"
    else
        echo "$2 $1"
    fi
}
python3 - "$TMT_TEST_DATA/results.yaml" <<'END' |
import json, sys
words = {"pass": "PASS", "fail": "FAIL", "error": "FAIL", "warn": "WARN"}
for one in json.load(open(sys.argv[1])):
    print(one["name"], words.get(one["result"], "SKIP"))
END
while read -r name result; do
    report "${TEST:-/fsage/study}${name%/}" "$result" "$TMT_TEST_DATA/answer.txt"
done
rm -rf "$TMT_TEST_DATA"
