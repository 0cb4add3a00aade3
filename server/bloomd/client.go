package bloomd

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"bigset/server/door"
)

// ErrUnsendable is returned for names and keys that no line can carry: any with a line feed, names and prefixes with a carriage return or a
// space, keys of Multi and Bulk with a space, and the empty key of Check and Set. Nothing is sent then.
var ErrUnsendable = errors.New("bloomd: name or key that the protocol can't carry")

// Refusal is an answer to a failed request, without its line feed. Answers that have an error of their own are returned as that error.
type Refusal string

func (r Refusal) Error() string { return "bloomd: answered " + strconv.Quote(string(r)) }

// Answered reports whether an error of a Client is the protocol's: a Refusal, ErrNoFilter, ErrOpen or ErrOptions, which the server has
// answered, or ErrUnsendable, for which nothing was sent. After any other error it is unknown what the server has done.
func Answered(err error) bool {
	var r Refusal
	return errors.As(err, &r) || errors.Is(err, ErrNoFilter) || errors.Is(err, ErrOpen) || errors.Is(err, ErrOptions) || errors.Is(err, ErrUnsendable)
}

// Client is one connection to bloomd, or to a server that speaks its protocol. Its methods must be called by one goroutine at a time. After
// an error that is not the protocol's, see Answered, it can no longer be used.
type Client struct {
	nc     net.Conn
	r      *bufio.Reader
	w      *bufio.Writer
	line   []byte // request being built
	answer []byte
}

// Dial connects to a server by TCP.
func Dial(ctx context.Context, addr string) (*Client, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("bloomd: %w", err)
	}
	return NewClient(nc), nil
}

// NewClient returns a client on a connection. The client owns the connection.
func NewClient(nc net.Conn) *Client {
	return &Client{nc: nc, r: bufio.NewReaderSize(nc, 64<<10), w: bufio.NewWriterSize(nc, 64<<10)}
}

// Close closes the connection.
func (c *Client) Close() error { return c.nc.Close() }

// Queue adds a line, without its line feed, to the lines to send, and may send queued lines. Each needs one Receive, in order. A server
// stops reading while too many of its answers wait, so call Receive before some megabytes of answers are due.
func (c *Client) Queue(line []byte) error {
	if _, err := c.w.Write(line); err != nil {
		return fmt.Errorf("bloomd: send: %w", err)
	}
	if err := c.w.WriteByte('\n'); err != nil {
		return fmt.Errorf("bloomd: send: %w", err)
	}
	return nil
}

// Send sends the queued lines.
func (c *Client) Send() error {
	if err := c.w.Flush(); err != nil {
		return fmt.Errorf("bloomd: send: %w", err)
	}
	return nil
}

// Receive sends the queued lines and returns the next answer unchanged: a line with its line feed, or all lines from START to END. The
// answer is valid until the next call.
func (c *Client) Receive() ([]byte, error) {
	if c.w.Buffered() > 0 {
		if err := c.Send(); err != nil {
			return nil, err
		}
	}
	c.answer = c.answer[:0]
	if err := c.readLine(); err != nil {
		return nil, err
	}
	if string(c.answer) != answerStart {
		return c.answer, nil
	}
	for {
		at := len(c.answer)
		if err := c.readLine(); err != nil {
			return nil, err
		}
		if string(c.answer[at:]) == answerEnd {
			return c.answer, nil
		}
	}
}

// readLine appends a line to the answer.
func (c *Client) readLine() error {
	for {
		part, err := c.r.ReadSlice('\n')
		c.answer = append(c.answer, part...)
		if err == nil {
			return nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return fmt.Errorf("bloomd: receive: %w", err)
		}
	}
}

// Do sends a line without its line feed and returns the answer as Receive does.
func (c *Client) Do(line []byte) ([]byte, error) {
	if err := c.Queue(line); err != nil {
		return nil, err
	}
	return c.Receive()
}

// Create makes a filter. created is false if it exists already.
func (c *Client) Create(name []byte, o door.FilterCreate) (created bool, err error) {
	c.begin("create", name)
	if o.Capacity != nil {
		c.line = strconv.AppendUint(append(c.line, " capacity="...), *o.Capacity, 10)
	}
	if o.Probability != nil {
		c.line = strconv.AppendFloat(append(c.line, " prob="...), *o.Probability, 'g', -1, 64)
	}
	if o.InMemory != nil {
		c.line = append(append(c.line, " in_memory="...), digitOf(*o.InMemory))
	}
	answer, err := c.ask(name)
	if err != nil {
		return false, err
	}
	if string(answer) == answerExists {
		return false, nil
	}
	return true, wantDone(answer)
}

// Check reports whether the filter probably contains the key.
func (c *Client) Check(name, key []byte) (bool, error) { return c.one("check", name, key) }

// Set adds the key and reports whether it was new.
func (c *Client) Set(name, key []byte) (bool, error) { return c.one("set", name, key) }

func (c *Client) one(verb string, name, key []byte) (bool, error) {
	if len(key) == 0 || bytes.IndexByte(key, '\n') >= 0 {
		return false, ErrUnsendable
	}
	c.begin(verb, name)
	c.line = append(append(c.line, ' '), key...)
	if key[len(key)-1] == '\r' {
		c.line = append(c.line, '\r') // the server strips one
	}
	answer, err := c.ask(name)
	if err != nil {
		return false, err
	}
	switch string(answer) {
	case answerYes:
		return true, nil
	case answerNo:
		return false, nil
	}
	return false, errorOf(answer)
}

// Multi reports for each key whether the filter probably contains it.
func (c *Client) Multi(name []byte, keys [][]byte) ([]bool, error) {
	return c.many("multi", name, keys)
}

// Bulk adds keys in their order and reports for each whether it was new.
func (c *Client) Bulk(name []byte, keys [][]byte) ([]bool, error) { return c.many("bulk", name, keys) }

func (c *Client) many(verb string, name []byte, keys [][]byte) ([]bool, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	c.begin(verb, name)
	for _, k := range keys {
		if bytes.ContainsAny(k, " \n") {
			return nil, ErrUnsendable
		}
		c.line = append(append(c.line, ' '), k...)
	}
	if last := keys[len(keys)-1]; len(last) == 0 || last[len(last)-1] == '\r' {
		c.line = append(c.line, ' ') // the server ignores one trailing space, and it protects the end of the key
	}
	answer, err := c.ask(name)
	if err != nil {
		return nil, err
	}
	return wordsOf(answer, len(keys))
}

// wordsOf reads an answer of n words Yes and No.
func wordsOf(answer []byte, n int) ([]bool, error) {
	words := make([]bool, 0, n)
	for word := range bytes.SplitSeq(bytes.TrimSuffix(answer, []byte("\n")), []byte(" ")) {
		yes := string(word) == "Yes"
		if !yes && string(word) != "No" {
			return nil, errorOf(answer)
		}
		words = append(words, yes)
	}
	if len(words) != n {
		return nil, fmt.Errorf("bloomd: %d words for %d keys", len(words), n)
	}
	return words, nil
}

// Drop removes a filter for good.
func (c *Client) Drop(name []byte) error { return c.order("drop", name) }

// CloseFilter flushes a filter and removes it from memory.
func (c *Client) CloseFilter(name []byte) error { return c.order("close", name) }

// Clear hides a closed filter until it is created again or the server restarts.
func (c *Client) Clear(name []byte) error { return c.order("clear", name) }

// Flush makes all keys set in a filter durable.
func (c *Client) Flush(name []byte) error { return c.order("flush", name) }

// FlushAll makes all keys set in any filter durable.
func (c *Client) FlushAll() error {
	answer, err := c.Do([]byte("flush"))
	if err != nil {
		return err
	}
	return wantDone(answer)
}

func (c *Client) order(verb string, name []byte) error {
	c.begin(verb, name)
	answer, err := c.ask(name)
	if err != nil {
		return err
	}
	return wantDone(answer)
}

// Info returns what the server knows about a filter.
func (c *Client) Info(name []byte) (door.FilterInfo, error) {
	c.begin("info", name)
	answer, err := c.ask(name)
	if err != nil {
		return door.FilterInfo{}, err
	}
	return decodeInfo(string(name), answer)
}

// List returns the filters whose names begin with the prefix, in the server's order: their names, probabilities and figures.
func (c *Client) List(prefix []byte) ([]door.FilterInfo, error) {
	if bytes.ContainsAny(prefix, "\r\n ") || string(prefix) == absolute {
		return nil, ErrUnsendable
	}
	answer, err := c.Do(slices.Concat([]byte("list "), prefix))
	if err != nil {
		return nil, err
	}
	return decodeList(answer)
}

func (c *Client) begin(verb string, name []byte) {
	c.line = append(append(append(c.line[:0], verb...), ' '), name...)
}

// ask sends the line that begin and its caller have built.
func (c *Client) ask(name []byte) ([]byte, error) {
	if bytes.ContainsAny(name, " \r\n") {
		return nil, ErrUnsendable
	}
	return c.Do(c.line)
}

func wantDone(answer []byte) error {
	if string(answer) == answerDone {
		return nil
	}
	return errorOf(answer)
}

// errorOf returns the error that an answer stands for.
func errorOf(answer []byte) error {
	for _, e := range answersToErrors {
		if string(answer) == e.answer {
			return e.client
		}
	}
	return Refusal(strings.TrimSuffix(string(answer), "\n"))
}
