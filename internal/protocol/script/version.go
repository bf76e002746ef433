package script

// Protocol is the number of the protocol that these scripts, keys and messages implement. Clients
// of different numbers cannot share a name. docs/protocol.md says what each number changed.
const Protocol = 1
