// Package bloomdtest supports tests of bloomd's protocol: filters in memory that behave as bloomd's do (Memory), conversations with a
// real bloomd, which it records and replays (Script), and random requests whose answers must be equal on two servers (Compare).
//
// It is for tests. The program in its folder live records conversations and compares running servers.
package bloomdtest
