package script

// Protocol is the number of the protocol that these scripts, keys and messages implement. Clients
// of different numbers must not share a name, which no client checks: docs/protocol.md.
const Protocol = 1
