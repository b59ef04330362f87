#!/bin/sh
# Load for `fsage power-cycle`: small files, one after the other, acknowledged when they are on the medium.
# Each line leaves at once: a shell's echo keeps nothing back, as a program's buffered output would.
# load.sh DIRECTORY [unsynced]: with `unsynced` it acknowledges what may still be in memory, which is wrong.
cd "$1" || exit 1
# It goes on where it was cut: a number is not used twice.
number=$(ls | grep -v '[^0-9]' | sort -n | tail -n 1)
while :; do
    number=$((${number:-0} + 1))
    echo "number $number" > "$number" || exit 1
    if [ "$2" = unsynced ]; then
        sleep 0.01 # so that a small file system does not run full
    else
        sync "$number" && sync . || exit 1
    fi
    echo "ack $number"
done
