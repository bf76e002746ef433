"""A process with the client of redlatch_client.py, driven by commands: worker.py HOST PORT NAME."""

import sys

from redlatch_client import Client

mutex = Client(sys.argv[1], int(sys.argv[2])).mutex(sys.argv[3])
print("ready", flush=True)
lease = None
for line in sys.stdin:
    command = line.strip()
    if command == "lock":
        lease = mutex.lock(lambda: print("waiting", flush=True))
        print("held", lease.token, "heard" if lease.heard else "asked", flush=True)
    elif command == "try":
        lease = mutex.try_lock()
        print("held %d" % lease.token if lease else "taken", flush=True)
    elif command == "renew":
        print("renewed" if lease.renew() and lease.held() else "lost", flush=True)
    elif command == "release":
        print("released" if lease.release() else "lost", flush=True)
