// Package tests tries redlatch from outside, on real redis-server processes, with what can go wrong going wrong: replies that are lost or
// late, subscriptions that drop, processes that are killed or suspended, servers that hang, restart empty or refuse.
//
// It is a module of its own, so that what only tests need stays out of the go.mod of redlatch's users.
package tests
