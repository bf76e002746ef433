// Package wire is connections that fail in chosen ways.
//
//	conn       of one client: requests that wait, replies and messages that are lost
//	lossy      requests that meet mishaps, by their number
//	nat        connections that fall silent without a reset
//	proxy      TCP: cut, delayed, swallowed
//	straggler  requests that arrive when all is over
package wire
