// Package history decides whether clients of a cluster were shown what they were promised. Clients record their requests and the
// answers, and [Recorder.Check] finds the answers that break a promise, in the way of Jepsen's set-full checker.
//
// # What is promised
//
// All requests have quorums with R + W > N. An operation that was acknowledged is seen by every operation that begins after the
// acknowledgement. For each element of a set, with times of one monotonic clock:
//
//	lost         an add was acknowledged before a read began, the read does not have the element, and no remove can have taken it. No later
//	             read has it
//	stale        the same, but a later read has the element again
//	resurrected  a remove was acknowledged before a read began, it covered every add that the read can have seen, and the read has the element
//	invented     a read has an element whose add had not begun
//	duplicate    one read has an element twice
//	doubled      two answers to tries of one request name different adds, or two answers do for an element that one request has added
//
// and for each key of a filter:
//
//	denied       a mark was acknowledged before a check began, the check says no, and no drop of the filter can have taken the key
//
// # Which remove takes which add
//
// A remove takes what its context has seen. The context is the answer of an earlier read, or, without one, what the replica that
// coordinates the remove has at that time.
//
//	                       surely takes an add               can have taken an add
//	context of read c      acknowledged before c began,      begun before c ended
//	                       if c has shown the element
//	without a context      none: the coordinator alone       begun before the remove ended
//	                       may lack what a quorum has
//
// To report that a read shows a removed element, one more thing must be certain. An add replaces what its coordinator has of the
// element. So c may have been shown a newer add that was never acknowledged, in place of the older one; the remove takes the newer
// one, and the older one is still present wherever the newer one has not come. So a remove counts for a read only if every add and
// every other remove of the element that began before c ended has failed, or was acknowledged before that read began.
//
// If one request alone has added the element, there is only one add, and any acknowledged remove whose context has shown it is certain.
//
// # Repeated requests
//
// A request may be sent again by its id ([Client.Again]). All tries are one operation: it begins with the first try that did not fail, and is
// acknowledged by the first acknowledgement. Later tries have no effect, so they excuse nothing. A kill or a lost disk may take the effect of a
// request that was not acknowledged, after clients have seen it; a repetition then makes another one. [Recorder.Losing] says when that may have
// happened.
//
// An operation whose outcome is unknown can take effect at any time after it began, or never: it excuses, and promises nothing. An
// operation that failed did nothing. So an acknowledgement by fewer replicas than W, or by a W that is too small, must be recorded
// as unknown.
//
// # What is not checked
//
// Answers about operations that were not acknowledged may come and go: a read at R writes nothing back, so a read that sees such an
// add may be followed by one that does not. The order between different elements or sets is not checked. A yes of a filter is never
// wrong. An add that no read could see, because none began later, is counted as never read.
//
// A recorder reports only what no execution explains, as far as one element is concerned: operations on one element are judged in
// pairs. It takes O(n log n) for n operations, where each element of a batch, or of an answer, counts as one.
//
// # Use
//
//	r := history.New(nil)
//	c := r.Client("writer 1")         // one for each goroutine
//	op := c.Add("friends", "paul")    // begins now
//	op.End(history.OK, nil)           // ends now
//	read := c.Read("friends")
//	read.Saw("paul")
//	read.End(history.OK, nil)
//	rm := c.Remove("friends", read, "paul")
//	rm.End(history.Unknown, err)
//	report := r.Check()               // when all clients have stopped
//
// Recording takes no lock. A client is for one goroutine, and clients are independent of each other. Check must be called after all
// of them have stopped.
package history
