package main

import "fmt"

// pick returns what belongs to the short form of a benchmark, or to the whole.
func pick[T any](quick bool, short, long T) T {
	if quick {
		return short
	}
	return long
}

// plural returns a number of things in words.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// atMost refuses a figure that is too high.
func atMost(what string, got, most float64) error {
	if got > most {
		return fmt.Errorf("%.2f %s, want %.2f at most", got, what, most)
	}
	return nil
}
