#!/bin/sh
# The same as a task of Beaker: results and logs go to restraint, or to standard output and a folder where it is not there.
# FSAGE, STUDY, OPTIONS and CONTRADICTED as in study.fmf; a job sets them with <param>.

set -u
here=$(dirname "$(readlink -f "$0")")
# Volumes are files below it: not in /tmp, which may be memory.
TMT_TEST_DATA=$(mktemp -d -p /var/tmp fsage-task.XXXXXX) || exit 1
export TMT_TEST_DATA
STUDY=${STUDY:-aging} OPTIONS=${OPTIONS---quick}
export STUDY OPTIONS
task=${TEST:-/fsage/study}

report() {
    if command -v rstrnt-report-result >/dev/null; then
        rstrnt-report-result -o "$3" "$1" "$2"
    else
        echo "$2 $1"
    fi
}

sh "$here/run.sh"
if [ ! -s "$TMT_TEST_DATA/results.yaml" ]; then
    report "$task" FAIL "$TMT_TEST_DATA/progress.txt"
    echo "no results were written; what there is, is in $TMT_TEST_DATA" >&2
    exit 1
fi
python3 - "$TMT_TEST_DATA/results.yaml" >"$TMT_TEST_DATA/results.txt" <<'END'
import json, sys
words = {"pass": "PASS", "fail": "FAIL", "error": "FAIL", "warn": "WARN"}
for one in json.load(open(sys.argv[1])):
    print(one["name"], words.get(one["result"], "SKIP"))
END
while read -r name result; do
    report "$task${name%/}" "$result" "$TMT_TEST_DATA/answer.txt"
done <"$TMT_TEST_DATA/results.txt"
for log in answer.txt progress.txt report.html samples.csv findings.json; do
    if command -v rstrnt-report-log >/dev/null && [ -f "$TMT_TEST_DATA/$log" ]; then
        rstrnt-report-log -l "$TMT_TEST_DATA/$log"
    fi
done
echo "store and logs: $TMT_TEST_DATA"
! grep -q ' FAIL$' "$TMT_TEST_DATA/results.txt"
