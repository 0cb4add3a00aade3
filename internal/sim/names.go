package sim

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"bigset/clock"
)

// names are short names of actors, which are random bytes: a for the first actor of replica 0, a2 for its next one, b for the first
// of replica 1. So the same seed prints the same script.
type names struct {
	of   map[clock.Actor]string
	made map[int]int // actors, by replica
}

func newNames() *names { return &names{map[clock.Actor]string{}, map[int]int{}} }

// met names the actor of a replica, if the actor is new.
func (n *names) met(replica int, a clock.Actor) {
	if n.of[a] != "" {
		return
	}
	n.made[replica]++
	n.of[a] = string(rune('a' + replica))
	if life := n.made[replica]; life > 1 {
		n.of[a] += fmt.Sprint(life)
	}
}

// actor returns the name of an actor. An actor of no known replica is an x.
func (n *names) actor(a clock.Actor) string {
	n.met('x'-'a', a)
	return n.of[a]
}

// dot formats a dot as scripts show it: a:1.
func (n *names) dot(d clock.Dot) string { return fmt.Sprintf("%s:%d", n.actor(d.Actor), d.Counter) }

// dots formats dots in the order of their names: [a:1 b:3].
func (n *names) dots(list []clock.Dot) string {
	var all []string
	for _, d := range list {
		all = append(all, n.dot(d))
	}
	slices.Sort(all)
	return "[" + strings.Join(all, " ") + "]"
}

// clock formats a clock in the order of its actors' names: {a:1-5,7 b:3}.
func (n *names) clock(c *clock.Clock) string {
	of := map[string]string{}
	for run := range c.Runs() {
		name, text := n.actor(run.Actor), fmt.Sprint(run.First)
		if run.Last > run.First {
			text += fmt.Sprintf("-%d", run.Last)
		}
		if of[name] == "" {
			of[name] = name + ":" + text
		} else {
			of[name] += "," + text
		}
	}
	var all []string
	for _, text := range of {
		all = append(all, text)
	}
	slices.Sort(all)
	return "{" + strings.Join(all, " ") + "}"
}

// hexActor matches an actor of an engine in a text.
var hexActor = regexp.MustCompile(`\b[0-9a-f]{24,}\b`)

// text returns a text with names in place of actors in hex.
func (n *names) text(s string) string {
	return hexActor.ReplaceAllStringFunc(s, func(text string) string {
		b, err := hex.DecodeString(text)
		if err != nil {
			return text
		}
		return n.actor(clock.Actor(b))
	})
}
