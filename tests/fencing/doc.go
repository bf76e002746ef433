// Package fencing tests the guards that refuse the write of a late holder, in the databases that
// are installed, and in Redis. Only this package needs SQL drivers.
//
// # Which file is about which hazard
//
//	fence                 an invalid token, in Redis
//	fencesql              a late holder writes: SQLite, and PostgreSQL, MariaDB if installed
//
// # Helpers
//
//	help_ledger           a resource that checks tokens, in a database
//	help_sqlserver        SQLite, PostgreSQL and MariaDB servers
package fencing
