// Package wire has connections that fail in chosen ways.
//
//	conn       of one client: requests that wait, replies and messages that are lost
//	lossy      requests that meet mishaps, by their number
//	proxy      TCP: cut, delayed, swallowed, silent without a reset
//	straggler  requests that arrive when all is over
package wire
