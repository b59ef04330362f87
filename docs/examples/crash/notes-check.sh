#!/bin/sh
# The note must be the last acknowledged one, or one that was written after it.
last=$(tail -n 1 "$FSAGE_ACKNOWLEDGED")
if [ ! -e note ]; then
    [ -z "$last" ] && exit 0
    echo "the note is gone, although $last was acknowledged"
    exit 1
fi
for number in 1 2 3 4 5 6 7 8; do
    seq "$((number * 1000))" "$((number * 1000 + 2000))" | cmp -s - note && found=$number
done
if [ -z "$found" ]; then
    echo "the note has $(wc -c < note) bytes and is none of those that were written"
    exit 1
elif [ "$found" -lt "${last:-0}" ]; then
    echo "the note is number $found, although $last was acknowledged"
    exit 1
fi
