package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"bigset"
)

// Limits of one atomic batch of import.
const (
	batchLines = 1000
	batchBytes = 1 << 20
)

// lineBytes is the size of the buffer, which must hold any line: the longest element is 64 KiB, a third more as base64.
const lineBytes = 4 * bigset.ElementBytesMax

// lines splits an input into batches of elements, one per line. The last line need not end with a newline. Only a newline is a line break.
// Everything before it is the element, even if that is empty or ends with a carriage return.
type lines struct {
	notation
	name string // of the input, for errors
	in   *bufio.Reader
	at   int // the number of the last line read
}

func newLines(name string, in io.Reader, n notation) *lines {
	return &lines{notation: n, name: name, in: bufio.NewReaderSize(in, lineBytes)}
}

// batch returns the elements of the next lines, in memory of their own: a full batch, or fewer if the rest of the input is not available
// yet, so that a slow input does not delay them. With an error, io.EOF at the end, it returns the elements before it.
func (l *lines) batch() (elements [][]byte, err error) {
	var text []byte // of all elements; slices of it stay valid when it is reallocated
	for total := 0; len(elements) < batchLines && total < batchBytes; {
		e, err := l.next()
		if err != nil {
			return elements, err
		}
		total += len(e)
		text = append(text, e...)
		elements = append(elements, text[len(text)-len(e):len(text):len(text)])
		if !l.atHand() {
			break
		}
	}
	return elements, nil
}

// next returns the element of the next line, valid until the next call.
func (l *lines) next() ([]byte, error) {
	line, err := l.in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, l.bad(fmt.Errorf("it is longer than %d bytes", lineBytes))
	case err == io.EOF && len(line) == 0:
		return nil, io.EOF
	case err != nil && err != io.EOF:
		return nil, fmt.Errorf("read %s after line %d: %w", l.name, l.at, err)
	}
	element, err := l.decode(bytes.TrimSuffix(line, []byte("\n")))
	if err != nil {
		return nil, l.bad(err)
	}
	l.at++
	return element, nil
}

func (l *lines) bad(err error) error {
	return fmt.Errorf("%w %d of %s: %w", errLine, l.at+1, l.name, err)
}

// atHand reports whether a whole line can be read without waiting.
func (l *lines) atHand() bool {
	ready, _ := l.in.Peek(l.in.Buffered())
	return bytes.IndexByte(ready, '\n') >= 0
}
