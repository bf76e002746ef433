package ballot

import "strings"

// ToldError is an error together with how each node stood. It is put into words only when it is
// read: most rounds without a lease are followed by another, and no code reads their errors.
type ToldError struct {
	Err   error
	Votes []Vote
}

func (e *ToldError) Error() string {
	all := []string{e.Err.Error()}
	for _, v := range e.Votes {
		all = append(all, v.String())
	}
	return strings.Join(all, "; ")
}

// Unwrap makes the error match what it is about.
func (e *ToldError) Unwrap() error { return e.Err }
