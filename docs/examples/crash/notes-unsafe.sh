#!/bin/sh
# Keeps a note in a file, replaced by rename. Not safe: nothing is synced.
set -e
for number in 1 2 3 4 5 6 7 8; do
    seq "$((number * 1000))" "$((number * 1000 + 2000))" > note.new
    mv note.new note
    echo "ack $number"
done
