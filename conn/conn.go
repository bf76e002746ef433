// Package conn is the seam between redlatch and a Redis client library.
//
// Most programs never import it: redlatch.Open brings a connection of its own. A program that
// already has a client wraps it with one of the adapters (redlatchrueidis, redlatchgoredis) and
// hands it to redlatch.New. A third adapter implements [Conn] and proves it with the suite in
// package conntest.
package conn

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"strings"
	"time"
)

// Conn is what redlatch asks of a Redis client library. All methods are safe for concurrent use.
// [Replicated] and [Sharded] are optional. A Conn that wraps another hides them unless it passes
// them on, as [Observe] does.
//
// An adapter carries requests and answers; it does not interpret them. In particular it need not
// resend anything: every script of redlatch may run twice and counts once, and redlatch resends by
// itself. For the same reason, the library may resend.
type Conn interface {
	// Eval runs the calls in one pipelined batch and returns one result for each, in order. It
	// returns when every reply is in or ctx is done; calls without a reply then have ctx's error,
	// and may still run on the server later.
	//
	// A script the server does not know (NOSCRIPT) is sent again in full. Every other error reply
	// comes back as a [*ReplyError]. Any other error means that the outcome is unknown.
	Eval(ctx context.Context, calls ...Call) []Result

	// Subscribe listens to one channel until ctx is done or the connection is lost, and returns why
	// it ended, never nil. It calls up once, when the server has confirmed the subscription:
	// messages published from then on are delivered. It calls message for each of them, in order,
	// on a goroutine of its own choice; message does not block. A server that stopped answering is
	// noticed within 15 seconds. Subscribe does not reconnect. Calls of up and message after it has
	// returned are ignored.
	Subscribe(ctx context.Context, channel string, up func(), message func(payload string)) error

	// Scan calls each for every key that matches the glob-style pattern, in steps that do not block
	// the server (SCAN), on every master of a cluster. A key may be reported twice. It stops at an
	// error of each or of ctx. Any other error is returned at the end, after the keys of all
	// masters that answer.
	Scan(ctx context.Context, pattern string, each func(key string) error) error

	// Target says what this connection leads to, without asking the server.
	Target() Target

	// Close ends the connection if the adapter opened it, and does nothing to a client that the
	// user brought.
	Close() error
}

// Replicated is a [Conn] that can wait for replicas. Without it, LockOptions.Replicas is refused.
type Replicated interface {
	// EvalReplicated runs one call and then waits until n replicas have acknowledged it and all
	// writes before it (WAIT), over the same connection and for wait at most. It returns how many
	// have. Fewer than n are no error. Everything else is as in Eval.
	EvalReplicated(ctx context.Context, call Call, n int, wait time.Duration) (Result, int)
}

// Sharded is a [Conn] that can listen to sharded channels. Without it, messages in a cluster go to
// all of its nodes.
type Sharded interface {
	// SubscribeSharded is Subscribe for a sharded channel, at the node that has the channel's slot
	// (SSUBSCRIBE). It is called for clusters only. It also ends when the slot moves to another
	// node. A server before Redis 7.0 does not know it, and answers with a [*ReplyError].
	SubscribeSharded(ctx context.Context, channel string, up func(), message func(payload string)) error
}

// Target says what a connection leads to.
type Target struct {
	Addr    string // for error messages: "127.0.0.1:6379", or several with commas; never a password
	Cluster bool   // whether keys are spread over the nodes of a Redis Cluster

	// Pipelined says that calls of Eval by several goroutines go over one connection without
	// waiting for each other, as they do with rueidis. Otherwise a client sends fewer calls alone,
	// and more together.
	Pipelined bool

	// Node returns the address of the node of a cluster that has the slot of a key, or "" if that is
	// not known. It asks no server. What it returns may be old: only which requests go together
	// depends on it. It is nil if the library does not tell, and where there is one server.
	Node func(key string) string

	// ShardsTogether says that sharded subscriptions of one node share a connection. Otherwise a
	// client opens 64 of them at most; see [Sharded].
	ShardsTogether bool
}

// Script is a Lua script and its SHA-1, by which EVALSHA names it.
type Script struct {
	Name string // for error messages
	Text string
	SHA1 string // 40 hex digits
}

// NewScript returns the script with this text.
func NewScript(name, text string) *Script {
	sum := sha1.New()
	part := make([]byte, 512) // a program has a megabyte of scripts, which it need not copy
	for rest := text; rest != ""; {
		n := copy(part, rest)
		sum.Write(part[:n])
		rest = rest[n:]
	}
	return &Script{Name: name, Text: text, SHA1: hex.EncodeToString(sum.Sum(nil))}
}

// Call is one run of a script.
type Call struct {
	Script *Script
	Keys   []string // all in one hash slot
	Args   []string

	// Resent says that an earlier request with this call, or with a call bundled in it, got no
	// usable answer. It is for counting requests, and is not sent.
	Resent bool
}

// Result is the outcome of one [Call].
type Result struct {
	Reply Reply
	Err   error
}

// Reply is what a script returned: exactly one of an integer, a text, a list or nil.
type Reply struct {
	Int  int64
	Text string
	List []Reply
	Nil  bool
}

// ReplyError is an error that the server answered with, as opposed to no answer at all: the command
// did not run, or a script stopped there and may have done part of its work.
type ReplyError struct {
	Text string // as the server sent it: "WRONGTYPE Operation against a key ..."
}

// Error returns the server's own text.
func (e *ReplyError) Error() string { return e.Text }

// Code returns the first word of the server's text, such as "WRONGTYPE" or "LOADING".
func (e *ReplyError) Code() string {
	code, _, _ := strings.Cut(e.Text, " ")
	return code
}
