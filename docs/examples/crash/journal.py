#!/usr/bin/env python3
"""Appends records to a file, each with its own checksum, and syncs after every fourth.

With the argument `check`: every acknowledged record is there, and what follows them may be missing or torn but
is never mistaken for a record.
"""
import os
import sys
import zlib

PATH = "journal"
RECORDS = 40


def record(number):
    body = (f"{number:06d} " + "payload " * (number % 50 * 8 + 1)).encode()
    return f"{zlib.crc32(body):08x} {len(body):06d} ".encode() + body + b"\n"


def load():
    with open(PATH, "ab", buffering=0) as file:
        directory = os.open(".", os.O_RDONLY)
        os.fsync(directory)
        for number in range(RECORDS):
            file.write(record(number))
            if number % 4 == 3:
                os.fsync(file.fileno())
                print(f"ack {number}", flush=True)


def check():
    with open(os.environ["FSAGE_ACKNOWLEDGED"]) as file:
        acknowledged = [int(line) for line in file]
    wanted = acknowledged[-1] + 1 if acknowledged else 0
    data = open(PATH, "rb").read() if os.path.exists(PATH) else b""
    found = 0
    while found < RECORDS and data.startswith(record(found)):
        data = data[len(record(found)) :]
        found += 1
    if found < wanted:
        sys.exit(f"{found} whole records, {wanted} were acknowledged")


if __name__ == "__main__":
    check() if sys.argv[1:] == ["check"] else load()
