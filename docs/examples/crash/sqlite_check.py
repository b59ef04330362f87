#!/usr/bin/env python3
"""Every transfer that was acknowledged is there, no other is there in part, and the database is intact."""
import os
import sqlite3
import sys

with open(os.environ["FSAGE_ACKNOWLEDGED"]) as file:
    acknowledged = [int(line) for line in file]
if not os.path.exists("accounts.db"):
    sys.exit("the database is gone" if acknowledged else 0)
try:
    database = sqlite3.connect("accounts.db")
    intact = database.execute("pragma integrity_check").fetchone()[0]
    if intact == "ok" and not acknowledged:
        # Power was lost before the first COMMIT had returned: there may be no table yet.
        sys.exit(0)
    total = database.execute("select sum(balance) from account").fetchone()[0]
    transfers = [row[0] for row in database.execute("select id from transfer order by id")]
except sqlite3.Error as error:
    sys.exit(f"the database cannot be read: {error}")
if intact != "ok":
    sys.exit(f"integrity_check: {intact}")
if total != 64_000:
    sys.exit(f"the balances add up to {total}, not 64000")
if transfers != list(range(1, len(transfers) + 1)):
    sys.exit("transfers are there, but not those before them")
if len(transfers) < acknowledged[-1]:
    sys.exit(f"{len(transfers)} transfers are there, {acknowledged[-1]} were acknowledged")
