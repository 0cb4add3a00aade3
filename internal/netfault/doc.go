// Package netfault decides what happens to a connection between two processes. It is a TCP proxy for tests, with one port for each
// pair of a dialer and a dialed process.
//
//	        Link("a", "b")                 Forth: what a sends
//	a ───────────> proxy ───────────> b
//	  <───────────       <───────────      Back: what b answers
//
// Without faults a link forwards bytes exactly, even on half-closed connections. Each direction of each link has its own faults:
//
//   - Delay, with a jitter that is drawn from the seed, and Limit, in bytes a second;
//   - Hold: nothing passes, and nothing is lost. What was sent arrives later, because TCP resends it once the network is back. If
//     both directions are held, the other side looks like a process under SIGSTOP ([Link.Pause]);
//   - Swallow: what is sent is accepted and lost forever. A connection that lost something is reset when the fault ends, because
//     TCP never leaves out a part.
//
// For both directions together: Cut closes the existing connections, by FIN or RST; Refuse closes the port, so that dials fail;
// Fragile resets new connections after a number of bytes that is drawn from the seed.
//
// A connection that a dials carries packets of both sides, so [Net.OneWay] holds what a sends on the connections that a dialed and
// on those that b dialed.
//
// Two things differ from a network. A dial succeeds even if the other side is down, and then the connection is reset, unless Refuse
// is set. And a link holds up to 4 MiB per connection and direction, which bounds the rate under a delay.
//
// All methods are safe for concurrent use. A write that is in progress when a fault begins may still pass.
package netfault
