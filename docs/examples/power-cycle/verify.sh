#!/bin/sh
# Verifies what load.sh acknowledged: verify.sh DIRECTORY < numbers
cd "$1" || exit 1
while read -r number; do
    # The whole line: a file may be there and have no contents.
    if ! { read -r line < "$number"; } 2> /dev/null || [ "$line" != "number $number" ]; then
        echo "file $number was acknowledged and does not have its contents"
        exit 1
    fi
done
