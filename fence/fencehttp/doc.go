// Package fencehttp carries fencing tokens over HTTP and refuses requests of late lock holders.
//
// The client's [Transport] adds two headers to each request, Redlatch-Name and Redlatch-Token, and
// sends nothing once the lease is no longer held. The service puts [Handler] around what writes:
//
//	mux.Handle("PUT /invoices/{id}", fencehttp.Handler(&marks, nameOf, save))
//
//	missing headers                           428 Precondition Required
//	malformed, or for another name, or        400 Bad Request
//	the guard returned fence.ErrInvalid
//	stale                                     409 Conflict, with the newest token in Redlatch-Current-Token
//	the guard failed                          503 Service Unavailable
//
// A [fence.Marks] is right if this process alone writes. If several do, or if a restart must not
// forget tokens, let the handler check in the transaction of the write, and leave out the
// middleware:
//
//	name, token, err := fencehttp.Read(r)
//	if err == nil {
//		err = save(r.Context(), name, token) // calls fencesql's Table.Check
//	}
//	if err != nil {
//		fencehttp.Refuse(w, err)
//		return
//	}
//
// A client that may send a token may send a huge one, and shut all others out: authenticate clients
// first.
package fencehttp

// The headers. A name is escaped as in the path of a URL, a token is a decimal number.
const (
	NameHeader    = "Redlatch-Name"          // the lock, in requests and in a 409
	TokenHeader   = "Redlatch-Token"         // the token of the request, in requests and in a 409
	CurrentHeader = "Redlatch-Current-Token" // the newest token seen, in a 409; 0 if none was
)
