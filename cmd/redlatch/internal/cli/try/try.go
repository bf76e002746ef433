// Package try implements the commands that need no locks of yours: demo and dev, with an embedded
// server, and verify.
package try
