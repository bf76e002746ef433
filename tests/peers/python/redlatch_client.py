"""A small client of redlatch's protocol: a mutex on one server, that waits in line.

It is written from docs/protocol.md and docs/vectors, to show that they are enough, and is for tests
alone: it resends nothing, extends nothing by itself and cleans up little.
"""

import queue
import secrets
import threading
import time

import redis

import scripts

HEARTBEAT = 5.0  # s
FENCE_TTL = 7 * 24 * 3600  # s


class Client:
    def __init__(self, host, port, prefix="redlatch:", heartbeat=HEARTBEAT):
        self.db = redis.Redis(host=host, port=port)
        self.prefix, self.heartbeat = prefix, heartbeat
        self.id, self.count = secrets.token_hex(8), 0
        self.address = "{%s%s}:grants" % (prefix, self.id)
        self.waiting = {}  # owner to the queue on which its messages come
        self.scripts = {}
        self.pubsub = self.db.pubsub(ignore_subscribe_messages=True)
        confirmed = threading.Event()
        self.pubsub.subscribe(**{self.address: self._hear})
        self.pubsub.connection.check_health()
        threading.Thread(target=self._listen, args=(confirmed,), daemon=True).start()
        confirmed.wait(5)

    def _listen(self, confirmed):
        self.pubsub.get_message(timeout=5)  # the confirmation
        confirmed.set()
        while True:
            self.pubsub.get_message(timeout=1)

    def _hear(self, message):
        verb, _, rest = message["data"].decode().partition("\t")
        if verb == "grant":
            token, _, owner = rest.split("\t", 2)
            self._tell(owner, ("grant", int(token)))
        elif verb == "first":
            ms, owner = rest.split("\t", 1)
            self._tell(owner, ("first", int(ms) / 1000))

    def _tell(self, owner, what):
        if owner in self.waiting:
            self.waiting[owner].put(what)

    def owner(self):
        self.count += 1
        return "rl-%s-%d" % (self.id, self.count)

    def run(self, name, keys, *args):
        if name not in self.scripts:
            self.scripts[name] = self.db.register_script(scripts.text(name))
        return self.scripts[name](keys=keys, args=args)

    def mutex(self, name, ttl=30.0):
        return Mutex(self, name, ttl)


class Lease:
    """A mutex that is held until the deadline, by time.monotonic()."""

    def __init__(self, mutex, owner, token, sent, heard):
        self.mutex, self.owner, self.token, self.heard = mutex, owner, token, heard
        self._held_from(sent, heard)

    def _held_from(self, sent, granted=False):
        ttl = self.mutex.ttl
        if granted:  # never longer than the client is believed alive
            ttl = min(ttl, self.mutex.live_for)
        self.deadline = sent + ttl - (ttl / 100 + 0.002)

    def held(self):
        return time.monotonic() < self.deadline

    def renew(self):
        """Returns whether Redis has the owner inside still."""
        sent = time.monotonic()
        m = self.mutex
        reply = m.client.run("mutex renew", m.keys + [m.forced], self.owner, m.ms(m.ttl))
        if reply != 1:
            return False
        self._held_from(sent)
        return True

    def release(self):
        """Returns whether the owner was inside."""
        m = self.mutex
        return m.client.run("mutex release", m.keys, FENCE_TTL, self.owner, "", "") > 0


class Mutex:
    def __init__(self, client, name, ttl):
        self.client, self.ttl = client, ttl
        self.live_for = 3 * client.heartbeat
        state = client.prefix + name
        start, end = state.find("{"), state.find("}")
        tag = state if 0 <= start and start + 1 < end else "{%s}" % state
        self.keys = [state, tag + ":fence", tag + ":queue", tag + ":clients"]
        self.forced = tag + ":forced"

    @staticmethod
    def ms(seconds):
        return int(seconds * 1000)

    def _acquire(self, owner, ticket, arrival):
        address = self.client.address if ticket else ""
        return self.client.run(
            "mutex acquire", self.keys, FENCE_TTL, owner, self.ms(self.ttl), "", ticket, address, self.ms(self.live_for), arrival
        )

    def try_lock(self):
        """Returns a lease, or None if the mutex is taken."""
        owner, sent = self.client.owner(), time.monotonic()
        reply = self._acquire(owner, "", 0)
        token = self._inside(reply)
        return Lease(self, owner, token, sent, False) if token else None

    @staticmethod
    def _inside(reply):
        if isinstance(reply, int):
            return reply
        if reply[0] == 1:
            return reply[1]
        if reply[0] == -1:
            raise RuntimeError(reply[1].decode())
        return 0

    def lock(self, waiting=lambda: None):
        """Stands in line until the mutex is granted, and returns the lease."""
        arrival = 0
        while True:
            owner = self.client.owner()
            ticket = "\t".join(["Hmutex", self.client.address, str(self.ms(self.ttl)), "", owner])
            messages = self.client.waiting[owner] = queue.Queue()
            try:
                sent = time.monotonic()
                reply = self._acquire(owner, ticket, arrival)
                token = self._inside(reply)
                if token:
                    return Lease(self, owner, token, sent, False)
                arrival = int(reply[3])
                waiting()
                lease = self._wait(owner, ticket, messages, sent, reply[6], self._pause(reply[4] > 0, reply[1], reply[2]))
                if lease:
                    return lease
            finally:
                del self.client.waiting[owner]

    def _pause(self, first, remaining, foreign):
        """Returns for how long to await messages before the next heartbeat."""
        pause = min(self.client.heartbeat, self.ttl / 3)
        if first and remaining >= 0:
            pause = min(pause, remaining / 1000 + 0.005)
        if first and foreign:
            pause = min(pause, 0.1)
        return pause

    def _wait(self, owner, ticket, messages, sent, fence, pause):
        """Returns the lease, or None if the ticket is not in line any more."""
        next_await = time.monotonic() + pause
        while True:
            try:
                verb, n = messages.get(timeout=max(0, next_await - time.monotonic()))
                if verb == "grant":
                    lease = Lease(self, owner, n, sent, True)
                    if n > fence and lease.held():
                        return lease
                    n = 0  # it is from before that answer, or has run out: ask
                next_await = min(next_await, time.monotonic() + n + 0.005)
                continue
            except queue.Empty:
                pass
            asked = time.monotonic()
            reply = self.client.run("mutex await", self.keys, FENCE_TTL, self.client.address, self.ms(self.live_for), ticket)
            remaining, foreign, ahead, _, fence, standing = reply
            if not standing:
                return None
            if standing[0] == 1:
                return Lease(self, owner, standing[1], asked, False)
            sent = asked
            next_await = time.monotonic() + self._pause(ahead == 0, remaining, foreign)
