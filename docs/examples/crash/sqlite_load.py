#!/usr/bin/env python3
"""Transactions in SQLite, each acknowledged when COMMIT has returned.

Arguments: the journal mode (delete, truncate, persist, wal), the value of synchronous (off, normal, full,
extra) and the number of transactions.
"""
import sqlite3
import sys

mode, synchronous, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
database = sqlite3.connect("accounts.db", isolation_level=None)
database.execute(f"pragma journal_mode = {mode}")
database.execute(f"pragma synchronous = {synchronous}")
database.execute("create table if not exists account (id integer primary key, owner text, balance integer)")
database.execute("create table if not exists transfer (id integer primary key)")
database.execute("begin")
for number in range(64):
    database.execute("insert or ignore into account values (?, ?, 1000)", (number, f"owner {number}" * 20))
database.execute("commit")
print("ack 0", flush=True)
for number in range(1, count + 1):
    database.execute("begin")
    database.execute("update account set balance = balance - 1 where id = ?", (number % 64,))
    database.execute("update account set balance = balance + 1 where id = ?", (number * 7 % 64,))
    database.execute("insert into transfer values (?)", (number,))
    database.execute("commit")
    print(f"ack {number}", flush=True)
