// Package convergence tests whether replicas converge: it runs generated schedules over your replicas, and checks what every
// replica shows. It needs only the standard library, and knows nothing of the data's internals.
//
// # Start
//
// Implement Replica, four methods, and call Run in a test:
//
//	func TestConverges(t *testing.T) {
//		convergence.Run(t, convergence.System{
//			Name: "my-set",
//			Open: func(env convergence.Env) (convergence.Replica, error) { return newReplica(env.ID), nil },
//			Spec: convergence.AddWins{},
//		}, convergence.Options{Schedules: 10_000})
//	}
//
// Messages and contexts are bytes that the kit never looks into. The examples have an observed-remove set, a last-writer-wins set
// and a 2P-set, about fifty lines each. Name the adds (Effect.Tag, Item.Tags) if you can: the kit then knows exactly what an
// operation had seen. Without tags it works with what must and what may have been seen, and finds a little less.
//
// # What a schedule does
//
// Two to eight replicas do concurrent operations, with contexts of any age. The elements are plain, prefixes of each other, empty,
// not UTF-8, or longer than 2^16 bytes; Options.Elements restricts them. Some schedules begin with an operation on each of a
// thousand elements, or with hundreds on one. An operation that can't be done returns ErrRefused. Messages are lost, duplicated, delayed and reordered. The
// net is partitioned and healed. Replicas leave for good, and others join in the middle. In some schedules nothing is read for a
// while. What else happens depends on what your replicas can do; they declare it by implementing more interfaces:
//
//	Batcher        several operations at once
//	Durable        Sync, crashes with and without loss of unsynced writes, clean restarts
//	Sender         messages that replicas send by themselves
//	Resender       with Durable: crashes before a message leaves; anti-entropy allows the same
//	Backuper       a restored backup, with Copier or System.Restored
//	DiskFaulter    I/O errors, a full disk
//	Repairer       anti-entropy, whose questions and answers travel by the lossy net too
//	Copier         copies, chunk by chunk, cut and resumed; then also replicas that lose their disk
//	Leaver         replicas that give up their data and are filled again
//	Maintainer     flushes, compactions, rewrites in the middle of anything
//	Damager        an element that the disk loses silently
//	System.Merge   streaming reads of several replicas, with fail-over
//	Quieter        goroutines of the replica's own, which the kit waits for; or package convergence/bubble
//	System.Parallel two clients at once in one replica
//	System.Retries clients that ask again under the same id, here or elsewhere
//	Verifier, Fingerprinter, Dumper   own invariants, the whole state, text for a failure
//
// Most schedules switch off some classes of faults, because otherwise repair hides what messages break. Others have a shape that
// aims at known mistakes (ShapeNames). From the 51st schedule on, most shapes are chosen by what was rarely reached: faults,
// states, and pairs of steps that follow each other at one replica. At the end everything is exchanged, by messages, anti-entropy
// or copies.
//
// # What is checked
//
// After every step, each replica that the step touched is read. The System's Spec judges the reading by two sets of operations. The
// reading must reflect those that were done or delivered at the replica and not lost in a crash, and those that were acknowledged
// by a quorum that intersects the read's. It may reflect those that can have reached the replica in any way. Operations that it may
// but need not reflect can show or not. An element must be shown when an add of it must be known and nothing that may be known
// removes it; it must not be shown when something that must be known removes each of its adds. Views must be in order, batches
// whole, and tags unique. After an exchange all replicas must show the same, and the results of all Fingerprinters must be equal.
//
// A replica that was filled by copies (Copier) has what the sources had when their copies began. A replica that lost its disk must
// answer ErrNotReady until then: an empty answer would count towards a quorum. The quorums are W, a majority of the replicas, and
// any R with R+W > N.
//
// The declarations on which a verdict rests are in System: which set it is (Spec), and how its replicas learn of each other's
// operations (BestEffort, Buffers, CausalNet). docs/convergence.md has a line for each kind of replication, each kind of set and
// each kind of violation. A failure says which declaration it rests on, and which other declarations would accept it.
//
// # Failures
//
// A failing schedule is run again to see whether it fails each time. Then it is shrunk, as long as the same kind of violation
// remains: by halves of its steps, single steps, replicas, elements, operations of batches, contexts, references, numbers. A
// panic shows its stack, also if it leaves a lock held; a call that does not return within Options.StepLimit shows the stack of
// its goroutine. Time in which the process was stopped, or got no processor, does not count. If the process itself ends, the next
// Run of the system writes the script of the schedule that was running, and names it on standard error. The shrunk script is
// written to a file, with the violation and its stack as comments. It prints one step per line, with what each step did:
//
//	9 do A add a                       # a is 0-1; A shows {a[0-1]}; B shows {}
//	15 deliver 9.0 B                   # B shows {a[0-1]}
//	17 do B remove a                   # B shows {}
//	25 exchange messages               # A shows {a[0-1]} !! resurrected
//
// Messages and contexts are named by the step that made them: 9.0 is the first message of step 9. Run writes the script to a file;
// CONVERGENCE_REPLAY=FILE go test -run TestConverges replays it, and so does Replay. CONVERGENCE_SEED, CONVERGENCE_SCHEDULES,
// CONVERGENCE_SECONDS and CONVERGENCE_WORKERS override the options, for a longer run of the same test; CONVERGENCE_DIR is where
// scripts are written. Fuzz makes a schedule from the bytes of go test -fuzz.
//
// # Files and goroutines
//
// Package convergence/crashfs is a file system for replicas that keep files: after a crash they have what was synced, and a random
// part of the rest. Package convergence/bubble runs schedules in bubbles of testing/synctest, for replicas with goroutines.
//
// # Determinism
//
// One goroutine drives a schedule, which is a function of its seed and number. Several schedules run concurrently, one per core
// (Options.Workers); a system whose replicas share variables between schedules must set System.Alone. What was reached so far is
// counted in blocks of 25 schedules, up to the block before the last one. Generate makes any schedule again. If replicas do not
// replay exactly, it may make a different schedule; keep the script instead. A replica replays exactly if it takes time from
// Env.Now and randomness from Env.Rand, and does background work in Maintain. A replica with goroutines of its own may fail only
// sometimes: then the kit runs it again more often, the failure reports in how many runs it failed, and shrinking tries each
// candidate as often as necessary.
//
// # How the kit is tested
//
// TestBroken breaks a reference replica in 61 ways in which real systems have been broken, from a removal that is forgotten
// because its add has not come yet, to a streaming read that resumes at the wrong place. The kit finds each within 1,000
// schedules, from outside. TestFindsAll does so with 64 sets, counters, registers and maps that are broken as those of public
// libraries were. TestAccusesNone runs 60 correct ones, each with what it declares.
package convergence
