package bloomd

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"bigset"
	"bigset/bloomslice"
	"bigset/server/door"
)

// The answers. They are on the wire: clients compare whole answers.
const (
	answerDone   = "Done\n"
	answerExists = "Exists\n"
	answerYes    = "Yes\n"
	answerNo     = "No\n"
	answerStart  = "START\n"
	answerEnd    = "END\n"

	answerNoFilter = "Filter does not exist\n"
	answerOpen     = "Filter is not proxied. Close it first.\n"
	answerInternal = "Internal Error\n"

	answerUnknown    = "Client Error: Command not supported\n"
	answerNoName     = "Client Error: Must provide filter name\n"
	answerNoKey      = "Client Error: Must provide filter name and key\n"
	answerUnexpected = "Client Error: Unexpected arguments\n"
	answerBadName    = "Client Error: Bad filter name\n"
	answerBadOptions = "Client Error: Bad arguments\n"
	answerTooLong    = "Client Error: Line too long\n" // bloomd has no such limit
)

// answersToErrors maps errors of the filters to answers, and answers to errors of Client. Any other error is answerInternal.
var answersToErrors = []struct {
	err    error
	answer string
	client error
}{
	{bigset.ErrNoFilter, answerNoFilter, ErrNoFilter},
	{bigset.ErrFilterOpen, answerOpen, ErrOpen},
	{bloomslice.ErrOptions, answerBadOptions, ErrOptions},
}

// answerOf returns the answer to a request that failed on the node.
func answerOf(err error) string {
	for _, e := range answersToErrors {
		if errors.Is(err, e.err) {
			return e.answer
		}
	}
	return answerInternal
}

// appendRow appends a filter's row in the answer to list.
func appendRow(dst []byte, i *door.FilterInfo) []byte {
	dst = append(append(dst, i.Name...), ' ')
	dst = append(appendProbability(dst, i.Probability), ' ')
	dst = append(strconv.AppendUint(dst, i.Storage, 10), ' ')
	dst = append(strconv.AppendUint(dst, i.Capacity, 10), ' ')
	return append(strconv.AppendUint(dst, i.Size, 10), '\n')
}

// appendProbability appends a probability as bloomd prints it: small ones appear as zero.
func appendProbability(dst []byte, p float64) []byte { return strconv.AppendFloat(dst, p, 'f', 6, 64) }

// figuresOf returns the integers of info in their order; probability is only a place, before sets.
func figuresOf(i *door.FilterInfo) []figure {
	return []figure{
		{"capacity", i.Capacity},
		{"checks", i.CheckHits + i.CheckMisses},
		{"check_hits", i.CheckHits},
		{"check_misses", i.CheckMisses},
		{"in_memory", uint64(digitOf(i.InMemory) - '0')},
		{"page_ins", i.PageIns},
		{"page_outs", i.PageOuts},
		{"probability", 0},
		{"sets", i.SetHits + i.SetMisses},
		{"set_hits", i.SetHits},
		{"set_misses", i.SetMisses},
		{"size", i.Size},
		{"storage", i.Storage},
	}
}

type figure struct {
	name  string
	value uint64
}

// appendInfo appends the answer to info.
func appendInfo(dst []byte, i *door.FilterInfo) []byte {
	dst = append(dst, answerStart...)
	for _, f := range figuresOf(i) {
		dst = append(append(dst, f.name...), ' ')
		if f.name == "probability" {
			dst = appendProbability(dst, i.Probability)
		} else {
			dst = strconv.AppendUint(dst, f.value, 10)
		}
		dst = append(dst, '\n')
	}
	return append(dst, answerEnd...)
}

// digitOf returns 1 or 0, as the protocol writes booleans.
func digitOf(yes bool) byte {
	if yes {
		return '1'
	}
	return '0'
}

// blockOf returns the lines between START and END, or the error that the answer stands for.
func blockOf(answer []byte) ([][]byte, error) {
	rows, ok := bytes.CutPrefix(answer, []byte(answerStart))
	if !ok {
		return nil, errorOf(answer)
	}
	rows = bytes.TrimSuffix(rows, []byte(answerEnd))
	if len(rows) == 0 {
		return nil, nil
	}
	return bytes.Split(rows[:len(rows)-1], []byte("\n")), nil
}

// decodeInfo reads an answer to info. It skips unknown lines.
func decodeInfo(name string, answer []byte) (door.FilterInfo, error) {
	rows, err := blockOf(answer)
	if err != nil {
		return door.FilterInfo{}, err
	}
	i := door.FilterInfo{Name: name}
	for _, row := range rows {
		word, value, _ := bytes.Cut(row, []byte(" "))
		if string(word) == "probability" {
			i.Probability, err = strconv.ParseFloat(string(value), 64)
		} else if at := fieldOf(&i, string(word)); at != nil {
			*at, err = strconv.ParseUint(string(value), 10, 64)
		} else if string(word) == "in_memory" {
			i.InMemory = string(value) == "1"
		}
		if err != nil {
			return door.FilterInfo{}, fmt.Errorf("bloomd: info of %q: %q: %w", name, row, err)
		}
	}
	return i, nil
}

// fieldOf returns the field for a number of info; nil if the number follows from others or is unknown.
func fieldOf(i *door.FilterInfo, name string) *uint64 {
	switch name {
	case "capacity":
		return &i.Capacity
	case "check_hits":
		return &i.CheckHits
	case "check_misses":
		return &i.CheckMisses
	case "page_ins":
		return &i.PageIns
	case "page_outs":
		return &i.PageOuts
	case "set_hits":
		return &i.SetHits
	case "set_misses":
		return &i.SetMisses
	case "size":
		return &i.Size
	case "storage":
		return &i.Storage
	}
	return nil
}

// decodeList reads an answer to list.
func decodeList(answer []byte) ([]door.FilterInfo, error) {
	rows, err := blockOf(answer)
	if err != nil {
		return nil, err
	}
	infos := make([]door.FilterInfo, len(rows))
	for n, row := range rows {
		if err := decodeRow(&infos[n], row); err != nil {
			return nil, fmt.Errorf("bloomd: row %q: %w", row, err)
		}
	}
	return infos, nil
}

func decodeRow(i *door.FilterInfo, row []byte) (err error) {
	words := bytes.Split(row, []byte(" "))
	if len(words) != 5 {
		return fmt.Errorf("%d words", len(words))
	}
	i.Name = string(words[0])
	if i.Probability, err = strconv.ParseFloat(string(words[1]), 64); err != nil {
		return err
	}
	for n, at := range []*uint64{&i.Storage, &i.Capacity, &i.Size} {
		if *at, err = strconv.ParseUint(string(words[2+n]), 10, 64); err != nil {
			return err
		}
	}
	return nil
}
