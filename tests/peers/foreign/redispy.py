"""The lock of redis-py, driven by commands on standard input; see realclients_test.go."""

import sys

import redis
from redis.exceptions import LockError

host, port, key = sys.argv[1], int(sys.argv[2]), sys.argv[3]
db = redis.Redis(host=host, port=port)
lock = None
print("ready redis-py", redis.__version__, flush=True)
for line in sys.stdin:
    command, _, ttl = line.strip().partition(" ")
    if command == "release":
        try:
            lock.release()
            print("released", flush=True)
        except LockError as e:
            print("lost", e, flush=True)
        continue
    lock = db.lock(key, timeout=int(ttl) / 1000)
    held = lock.acquire(blocking=command == "wait", blocking_timeout=60 if command == "wait" else None)
    print("held" if held else "taken", flush=True)
