// Package halt names the signals that stop another process and continue it.
//
// A process that got Stop runs no code until it gets Continue. Its connections stay open, and the system accepts new ones. A system other than a Unix, such
// as Windows, has no such signals: os.Process.Signal returns an error there.
package halt
