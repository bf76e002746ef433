// Package memory has tests run in bubbles of testing/synctest, on servers in memory: their time
// passes when all goroutines wait, so no machine is too slow for them. Packages that import it need
// redlatchtest, which takes its time to compile.
//
//	bubble  a bubble with a server in memory that is asked as a real one is
//	course  a course over several servers in memory
package memory
