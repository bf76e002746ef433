"""Runs the vectors of docs/vectors against a Redis that it may empty: vectors.py HOST PORT."""

import json
import re
import sys

import redis

import scripts

SLACK = 1000  # ms that a time may differ
PLACEHOLDER = re.compile(r"\$\{(us|ms|left|run|id)(?::(-?\d+))?\}")


def resolve(text, us, run):
    def value(m):
        if m[1] == "run":
            return run
        return str(us + int(m[2]) if m[1] == "us" else us // 1000 + int(m[2]))

    return PLACEHOLDER.sub(value, text)


def matches(want, got, us, run):
    """Reports whether a text is what a text with placeholders says."""
    parts, kinds, at = [], [], 0
    for m in PLACEHOLDER.finditer(want):
        parts.append(re.escape(want[at : m.start()]))
        parts.append({"run": re.escape(run), "id": r"\d+-\d+"}.get(m[1], r"(\d+)"))
        if m[1] not in ("run", "id"):
            kinds.append((m[1], int(m[2])))
        at = m.end()
    found = re.fullmatch("".join(parts) + re.escape(want[at:]), got, re.DOTALL)
    if not found:
        return False
    for (kind, n), digits in zip(kinds, found.groups()):
        got_ms = {"us": (int(digits) - us) / 1000 - n / 1000, "ms": int(digits) - us / 1000 - n, "left": int(digits) - n}[kind]
        if abs(got_ms) > SLACK:
            return False
    return True


def same_reply(want, got, us, run):
    if isinstance(want, dict):
        return isinstance(got, int) and matches(want["int"], str(got), us, run)
    if isinstance(want, list):
        return isinstance(got, list) and len(want) == len(got) and all(same_reply(w, g, us, run) for w, g in zip(want, got))
    if isinstance(want, str):
        return isinstance(got, bytes) and matches(want, got.decode(), us, run)
    return want == got


def load(db, state, us, run):
    db.flushall()
    for key, k in state.items():
        if k["type"] == "string":
            value = k["value"]
            db.set(key, bytes.fromhex(value[4:]) if value.startswith("hex:") else resolve(value, us, run))
        for field, value in k["value"] if k["type"] != "string" else []:
            if k["type"] == "hash":
                db.hset(key, field, resolve(value, us, run))
            elif k["type"] == "zset":
                db.execute_command("ZADD", key, resolve(value, us, run), resolve(field, us, run))
            else:
                db.execute_command("XADD", key, "*", field, value)
        if k["pttl"] > 0:
            db.pexpire(key, k["pttl"])


def held(db, key, kind):
    if kind == "string":
        raw = db.get(key)
        return "hex:" + raw.hex() if key.endswith(":bits") else raw.decode()
    if kind == "hash":
        return sorted([f.decode(), v.decode()] for f, v in db.hgetall(key).items())
    if kind == "zset":
        return [[m.decode(), str(int(s))] for m, s in db.zrange(key, 0, -1, withscores=True)]
    return [[f.decode(), v.decode()] for _, e in db.xrange(key) for f, v in e.items()]


def same_state(db, want, us, run):
    keys = sorted(k.decode() for k in db.keys("*"))
    if keys != sorted(want):
        return "the keys are %s" % keys
    for key, k in want.items():
        got, left = held(db, key, k["type"]), db.pttl(key)
        pairs = [[k["value"]]] if k["type"] == "string" else k["value"]
        found = [[got]] if k["type"] == "string" else got
        if len(pairs) != len(found) or not all(matches(w, g, us, run) for p, f in zip(pairs, found) for w, g in zip(p, f)):
            return "%s is %s" % (key, got)
        if (left < 0) != (k["pttl"] < 0) or abs(left - k["pttl"]) > SLACK:
            return "%s expires in %s ms" % (key, left)
    return None


def check(db, v, run):
    listener, patterns = db.pubsub(), db.pubsub()
    patterns.psubscribe("*")
    patterns.get_message(timeout=5)
    for channel in v.get("listening", []):
        listener.subscribe(channel)
        listener.get_message(timeout=5)
    try:
        s, micros = db.time()
        us = s * 1000000 + micros
        load(db, v["before"], us, run)
        args = [resolve(a, us, run) for a in v["args"]]
        reply = db.eval(scripts.text(v["script"]), len(v["keys"]), *v["keys"], *args)
        if not same_reply(v["reply"], reply, us, run):
            return "the reply is %s" % (reply,)
        for channel, message in v.get("published", []):
            m = patterns.get_message(timeout=5)
            if not m or m["channel"].decode() != channel or not matches(message, m["data"].decode(), us, run):
                return "published %s" % (m,)
        if patterns.get_message(timeout=0):
            return "more was published"
        return same_state(db, v["after"], us, run)
    finally:
        listener.close()
        patterns.close()


def main():
    db = redis.Redis(host=sys.argv[1], port=int(sys.argv[2]))
    run = db.info("server")["run_id"]
    count = 0
    print("ready", flush=True)
    for path in sorted(scripts.VECTORS.glob("*.json")):
        if path.name == "scripts.json":
            continue
        for v in json.loads(path.read_text()):
            problem = check(db, v, run)
            if problem:
                sys.exit("%s, %s: %s; want %s" % (path.name, v["name"], problem, json.dumps(v)))
            count += 1
        print(path.name, "holds", flush=True)
    print(count, "vectors", flush=True)


main()
