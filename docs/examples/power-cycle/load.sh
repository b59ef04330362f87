#!/bin/sh
# Load for `fsage power-cycle`: small files, one after the other, acknowledged when they are on the medium.
# Each line is sent immediately: a shell's echo is not buffered, unlike the output of many programs.
# load.sh DIRECTORY [unsynced]: with `unsynced` it acknowledges what may still be in memory, which is wrong.
cd "$1" || exit 1
# Continues after the last number before the cut: no number is used twice.
number=$(ls | grep -v '[^0-9]' | sort -n | tail -n 1)
while :; do
    number=$((${number:-0} + 1))
    echo "number $number" > "$number" || exit 1
    if [ "$2" = unsynced ]; then
        sleep 0.01 # so that a small file system does not become full
    else
        sync "$number" && sync . || exit 1
    fi
    echo "ack $number"
done
