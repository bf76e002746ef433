// Package mutants breaks the code in known ways, one at a time, and checks that the tests
// named with each notice. TestMutants runs only with make mutants.
//
// # Which file is about which hazard
//
//	mutants      tests that notice nothing: known breaks of the code
//	simulated    mutants that the simulation does not find
package mutants
