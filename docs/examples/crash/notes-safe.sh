#!/bin/sh
# Keeps a note in a file, replaced by rename: the new file is synced before the rename, the directory after it.
set -e
for number in 1 2 3 4 5 6 7 8; do
    seq "$((number * 1000))" "$((number * 1000 + 2000))" > note.new
    sync note.new
    mv note.new note
    sync .
    echo "ack $number"
done
