package bloomd

import (
	"bytes"
	"strconv"

	"bigset/bloomslice"
	"bigset/server/door"
)

// command is the command of a line.
type command uint8

const (
	cmdUnknown command = iota
	cmdCheck
	cmdSet
	cmdMulti
	cmdBulk
	cmdCreate
	cmdList
	cmdDrop
	cmdClose
	cmdClear
	cmdInfo
	cmdFlush
	commandCount
)

func (c command) String() string {
	return [commandCount]string{"unknown", "check", "set", "multi", "bulk", "create", "list", "drop", "close", "clear", "info", "flush"}[c]
}

// commandOf returns the command of a word. Case matters.
func commandOf(word []byte) command {
	switch string(word) {
	case "check", "c":
		return cmdCheck
	case "set", "s":
		return cmdSet
	case "multi", "m":
		return cmdMulti
	case "bulk", "b":
		return cmdBulk
	case "create":
		return cmdCreate
	case "list":
		return cmdList
	case "drop":
		return cmdDrop
	case "close":
		return cmdClose
	case "clear":
		return cmdClear
	case "info":
		return cmdInfo
	case "flush":
		return cmdFlush
	}
	return cmdUnknown
}

// nameBytesMax is bloomd's limit. No filter has a longer name.
const nameBytesMax = 200

// request is a parsed line. Its bytes point into the line.
type request struct {
	command command
	all     bool              // flush: all filters
	exact   bool              // list and info: figures of all nodes, not of one that stands for all
	name    []byte            // of the filter; for list, the prefix
	rest    []byte            // after the name: the key or the keys, never empty; or the options
	options door.FilterCreate // of create
	refusal string            // the answer to a malformed line; then only the command is set
}

// parse parses a line, given without its line end.
func parse(line []byte) (r request) {
	word, args, has := cut(line)
	r.command = commandOf(word)
	switch r.command {
	case cmdCheck, cmdSet, cmdMulti, cmdBulk:
		if r.name, r.rest, _ = cut(args); len(r.rest) == 0 {
			r.refusal = answerNoKey
		}
	case cmdList:
		r.parseList(args)
	case cmdCreate:
		r.parseCreate(args, has)
	case cmdDrop, cmdClose, cmdClear, cmdInfo, cmdFlush:
		r.parseName(args, has)
	default:
		r.refusal = answerUnknown
	}
	return r
}

// cut splits s around its first space.
func cut(s []byte) (before, after []byte, found bool) {
	if i := bytes.IndexByte(s, ' '); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, nil, false
}

// absolute is the last word of list and info if exact figures are wanted.
const absolute = "+absolute"

// parseList reads the arguments of list. A prefix with spaces matches no filter.
func (r *request) parseList(args []byte) {
	if string(args) == absolute {
		r.exact = true
		return
	}
	r.name, r.exact = bytes.CutSuffix(args, []byte(" "+absolute))
}

// parseName reads the arguments of a command with one name.
func (r *request) parseName(args []byte, has bool) {
	if r.command == cmdInfo {
		if name, exact := bytes.CutSuffix(args, []byte(" "+absolute)); exact && len(name) > 0 {
			args, r.exact = name, true
		}
	}
	switch {
	case !has && r.command == cmdFlush:
		r.all = true
	case !has:
		r.refusal = answerNoName
	case bytes.IndexByte(args, ' ') >= 0:
		r.refusal = answerUnexpected
	default:
		r.name = args
	}
}

func (r *request) parseCreate(args []byte, has bool) {
	r.name, r.rest, _ = cut(args)
	switch {
	case !has:
		r.refusal = answerNoName
	case !goodName(r.name):
		r.refusal = answerBadName
	case !parseOptions(&r.options, r.rest):
		r.refusal = answerBadOptions
	}
}

// goodName reports whether a filter may have this name. bloomd ends a name at a NUL.
func goodName(name []byte) bool {
	return len(name) > 0 && len(name) <= nameBytesMax && !bytes.ContainsAny(name, "\x00\t\r\n ")
}

// parseOptions reads the options of create. It reports whether bloomd's rules allow them: each must be readable. If an option is repeated,
// only its last value must be within its bounds.
func parseOptions(o *door.FilterCreate, text []byte) bool {
	inMemory := uint64(0)
	for word := range bytes.SplitSeq(text, []byte(" ")) {
		if len(word) > 0 && !parseOption(o, word, &inMemory) { // spaces may be repeated
			return false
		}
	}
	return inMemory <= 1 &&
		(o.Capacity == nil || *o.Capacity > bloomslice.CapacityMin) &&
		(o.Probability == nil || *o.Probability > 0 && *o.Probability < bloomslice.ProbabilityMax) // NaN fails both comparisons
}

func parseOption(o *door.FilterCreate, word []byte, inMemory *uint64) bool {
	name, value, _ := bytes.Cut(word, []byte("="))
	var err error
	switch string(name) {
	case "capacity":
		o.Capacity = new(uint64)
		*o.Capacity, err = strconv.ParseUint(string(value), 10, 63) // bloomd's number is signed
	case "prob":
		o.Probability = new(float64)
		*o.Probability, err = strconv.ParseFloat(string(value), 64)
	case "in_memory":
		*inMemory, err = strconv.ParseUint(string(value), 10, 63)
		yes := *inMemory == 1
		o.InMemory = &yes
	default:
		return false
	}
	return err == nil
}
