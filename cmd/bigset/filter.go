package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bigset"
	"bigset/bloomslice"
	"bigset/client"
	"bigset/engine"
	"bigset/engine/filters"
	"bigset/keyscheme"
	"bigset/server/bloomd"
	"bigset/server/door"
	"bigset/server/wire"
)

// filterCommand is the commands on bloom filters, and their common flags.
type filterCommand struct {
	*app
	addr         string
	certificates string
	answerTime   answerTimes // a test's; zero is the usual one
}

// answerTimes are how long a server may take: to accept a connection and for its first answer, and for anything later, such as the drop of a filter.
type answerTimes struct{ begin, each time.Duration }

var answerTime = answerTimes{10 * time.Second, time.Minute}

// timed is a connection whose other side may take some time for each read and each write.
type timed struct {
	net.Conn
	most time.Duration
}

func (t *timed) Read(b []byte) (int, error) {
	return t.end("answered nothing", t.SetReadDeadline, t.Conn.Read, b)
}

func (t *timed) Write(b []byte) (int, error) {
	return t.end("took nothing", t.SetWriteDeadline, t.Conn.Write, b)
}

func (t *timed) end(what string, by func(time.Time) error, do func([]byte) (int, error), b []byte) (n int, err error) {
	if err = by(time.Now().Add(t.most)); err == nil {
		n, err = do(b)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("it %s for %v, although it accepts connections: %w", what, t.most, err)
	}
	return n, err
}

func (a *app) filter() *cobra.Command {
	fs := &filterCommand{app: a}
	cmd := &cobra.Command{
		Use:   "filter",
		Short: "Make, change and query bloom filters, and import those of a bloomd",
		Long: `Make, change and query bloom filters like those of bloomd. For a key, a filter answers "no", which is certain, or "yes", which is wrong with at
most the filter's probability. A filter grows by layers when it has more keys than its capacity.

The commands work on the data folder while no server has it open. With --addr they ask a running server: a bloomd, or a node of Bigset at
its port for bloomd's protocol or for nodes and clients. A name has 1 to 200 bytes, without blanks and line breaks. Keys are any bytes.`,
		Example: `  bigset filter create seen --capacity 1000000 --prob 0.001
  bigset filter set seen paul ringo
  bigset filter check seen paul yoko
  bigset filter --addr localhost:8673 info seen
  bigset filter import-bloomd /var/lib/bloomd`,
	}
	cmd.PersistentFlags().StringVar(&fs.addr, "addr", "", "ask the server at this `HOST:PORT`, not the data folder: the port of bloomd's protocol, or that for nodes and clients")
	cmd.PersistentFlags().StringVar(&fs.certificates, "tls", "", "with --addr, the port for nodes and clients: `folder` of a client's certificate, which bigset cert makes")
	_ = cmd.MarkPersistentFlagDirname("tls")
	cmd.AddCommand(fs.create(), fs.list(), fs.set(), fs.check(), fs.info(), fs.drop(),
		fs.order("close", "Write filters to disk and remove them from the server's memory", running.closeFilter),
		fs.order("clear", "Make the server forget closed filters until they are created again (without a cluster: or it is started again)", running.clear),
		fs.flush(), fs.importBloomd(), fs.exportBloomd())
	for _, c := range cmd.Commands() {
		run := c.RunE
		c.RunE = func(cmd *cobra.Command, args []string) error {
			if yes, err := addressed(cmd, "tls"); err != nil {
				return err
			} else if yes && fs.addr == "" {
				return errNoAddress(cmd)
			}
			return run(cmd, args)
		}
	}
	return chooser(cmd)
}

// holder holds filters: a data folder, or a server.
type holder interface {
	create(ctx context.Context, name []byte, c creation) (created bool, err error)
	list(ctx context.Context, prefix []byte) ([]facts, error)
	info(ctx context.Context, name []byte) (facts, error)
	check(ctx context.Context, name []byte, keys [][]byte) ([]bool, error)
	set(ctx context.Context, name []byte, keys [][]byte) ([]bool, error)
	drop(ctx context.Context, name []byte) error
	settle(ctx context.Context, name []byte) error // returns when marks are on disk, or where the server promises to have them
}

// running is a server with filters.
type running interface {
	holder
	closeFilter(ctx context.Context, name []byte) error
	clear(ctx context.Context, name []byte) error
	flush(ctx context.Context, name []byte) error
	flushAll(ctx context.Context) error
}

// creation is the options of a new filter. Zero means the default.
type creation struct {
	capacity    uint64
	slices      uint32
	probability float64
	inMemory    bool
	durability  bigset.FilterDurability
}

// facts are what is known of a filter; one of the last two fields has more.
type facts struct {
	name        []byte
	probability float64
	bloomslice.Figures
	stored  *filters.Info    // from a folder
	here    []uint32         // from a folder, when asked for this filter alone: the slices that it has
	serving *door.FilterInfo // from a server, when asked for this filter alone
}

// with runs f with the holder chosen by --addr.
func (fs *filterCommand) with(ctx context.Context, how access, f func(holder) error) error {
	if fs.addr != "" {
		return fs.dial(ctx, func(s running) error { return f(s) })
	}
	return fs.withStore(how, func(s *engine.Store) error { return f(folderHolder{s}) })
}

// dial runs f with the server at --addr, by the protocol that it speaks. Connections end when the program is interrupted.
func (fs *filterCommand) dial(ctx context.Context, f func(running) error) error {
	if fs.certificates != "" {
		return fs.ask(f)
	}
	most := cmp.Or(fs.answerTime, answerTime)
	nc, err := (&net.Dialer{Timeout: most.begin}).DialContext(ctx, "tcp", fs.addr)
	if err != nil {
		return &serverError{fs.addr, err}
	}
	to := &timed{nc, most.begin}
	c := bloomd.NewClient(to)
	defer context.AfterFunc(ctx, func() { c.Close() })()
	defer c.Close()
	switch answer, err := c.Do(nil); { // an empty line is an error in bloomd's protocol, which distinguishes it
	case errors.Is(err, io.EOF):
		return &serverError{fs.addr, errors.New("it closed the connection without an answer: if it wants certificates, --tls names their folder")}
	case err != nil:
		return &serverError{fs.addr, err}
	case string(answer) == wire.ForeignLine:
		return fs.ask(f)
	}
	to.most = most.each
	if err = f(serverHolder{c, fs.addr}); err != nil && ctx.Err() != nil && !errors.Is(err, client.ErrUnknown) {
		return ctx.Err()
	}
	return settledAgain(err)
}

// settledAgain adds to an error that leaves the outcome of a change unknown how to settle it.
func settledAgain(err error) error {
	if !errors.Is(err, client.ErrUnknown) {
		return err
	}
	return &repeatError{err, "the same command again, without the filters that it has named as done, settles it; `bigset filter list` and `info` with the same --addr show what exists"}
}

// ask runs f with a client of the node at --addr.
func (fs *filterCommand) ask(f func(running) error) error {
	n := node{addrs: []string{fs.addr}, certificates: fs.certificates}
	c, err := n.open(fs.asksAgain())
	if err != nil {
		return err
	}
	return settledAgain(errors.Join(f(nodeHolder{c}), c.Close()))
}

// serverError is the error for a server that can't be reached.
type serverError struct {
	addr string
	err  error
}

func (e *serverError) Error() string { return fmt.Sprintf("server %s: %v", e.addr, e.err) }
func (e *serverError) Unwrap() error { return e.err }
func (e *serverError) Is(err error) bool {
	return err == errServer
}

var (
	errServer     = errors.New("no server")
	errFilterName = errors.New("bad name of a filter")
)

// filterName returns the bytes of a filter's name.
func filterName(arg string) ([]byte, error) {
	switch {
	case arg == "":
		return nil, fmt.Errorf("%w: it is empty", errFilterName)
	case strings.ContainsAny(arg, " \t\r\n"):
		return nil, fmt.Errorf("%w: %q has a blank or a line break", errFilterName, arg)
	case len(arg) > keyscheme.FilterNameBytesMax:
		return nil, fmt.Errorf("%w: it has %d bytes", errFilterName, len(arg))
	}
	return []byte(arg), nil
}

func filterNames(args []string) (names [][]byte, err error) {
	for _, arg := range args {
		name, err := filterName(arg)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

type jsonFilter struct {
	Text   *string `json:"filter,omitempty"`
	Base64 []byte  `json:"filter_base64,omitempty"`
}

func filterJSON(name []byte) jsonFilter {
	text, raw := notation{}.split(name)
	return jsonFilter{text, raw}
}

type jsonKey struct {
	Text   *string `json:"key,omitempty"`
	Base64 []byte  `json:"key_base64,omitempty"`
}
