// Package world runs the world of a seed: servers and a network (package wire), clients that come
// and go, faults, and checks of what was done. It is given a [Catalogue] of what the clients'
// actors play.
//
//	New --> plan --> Run --> life after life of clients --> actors in roles --> history, story
//	                  |                                                            |
//	                  '--> faults, while they are on              checks when all have ended
package world
