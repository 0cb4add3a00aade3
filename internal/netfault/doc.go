// Package netfault decides what a connection between two processes suffers: it is a TCP proxy for tests, one port for each pair of who
// dials and who is dialed.
//
//	        Link("a", "b")                 Forth: what a sends
//	a ───────────> proxy ───────────> b
//	  <───────────       <───────────      Back: what b answers
//
// Without faults a link passes bytes on exactly, and half-closed connections, too. Each direction of each link has faults of its own:
//
//   - Delay, with a jitter that is drawn from the seed, and Limit, bytes a second;
//   - Hold: nothing passes, and nothing is lost. What was sent arrives later, as TCP sends again after a cut of the network that ended.
//     Held in both directions, the other side looks like a process under SIGSTOP ([Link.Pause]);
//   - Swallow: what is sent is accepted and lost for ever. A connection that lost something is reset when the fault ends, because TCP never
//     leaves a part out.
//
// For both directions together: Cut closes the connections that exist, by FIN or RST; Refuse closes the port, so that nobody can dial; Fragile
// resets new connections after a number of bytes that is drawn from the seed.
//
// A connection that a dials carries packets of both, so [Net.OneWay] holds what a sends on the connections that a dialed and on those that
// b dialed.
//
// Two things differ from a network. A dial succeeds even if the other side is down, and the connection is reset then, unless Refuse says
// otherwise; and a link keeps up to 4 MiB a connection and direction on its way, which bounds the rate under a delay.
//
// All methods are safe for concurrent use. A write that is in progress when a fault begins may still pass.
package netfault
