// Package memory runs tests in bubbles of testing/synctest, on servers in memory: time passes there
// when all goroutines wait, so no machine is too slow. Packages that import it need redlatchtest,
// which takes a while to compile.
//
//	bubble  a bubble with a server in memory that is asked as a real one is
//	course  a course over several servers in memory
package memory
