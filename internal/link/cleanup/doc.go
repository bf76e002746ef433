// Package cleanup releases, in the background, owners that Redis may know and no goroutine uses:
// those of acquisitions that failed or were given up, and of leases whose release got no answer.
//
//	              Add
//	               |
//	               v
//	+----------> queue ---- due ----> release, in batches for each node
//	|                                        |
//	| a while later                          +-- it was inside ----------> look again if a copy of its request
//	|                                        |                             may be on its way still, or done
//	+---- look again <-----------------------+-- it was not inside ------> look again, or done if it said so
//	                                         |                             two or three times in a row
//	                                         +-- no answer, or refused --> look again, until it is gone by itself
//
// Even an outage in which every attempt leaves an owner behind costs only a batch now and then.
// Once a batch gets no answer at all, the others for that node wait for the next time. The nodes of
// a cluster count separately, as far as the connection knows which of them has a key.
package cleanup
