package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"bigset"
	"bigset/client"
	"bigset/engine"
)

// batchesUnderWay is the number of batches written concurrently, which may share a sync.
const batchesUnderWay = 8

func (a *app) setImport() *cobra.Command {
	im := &importer{app: a}
	cmd := &cobra.Command{
		Use:   "import SET [FILE]",
		Short: "Add the elements of a file, one a line",
		Long: `Add elements from a file, one a line; - or nothing is standard input. An empty line is the empty element; a line ends at
a newline, and a carriage return before it is part of the element. --base64 reads any bytes.

Lines are written in atomic batches, about a thousand in each, in order. With --ack the last element of each batch is printed
as soon as the batch, and all before it, are on disk. The last line of output is the number of elements that are on disk; an error
contains it, too. Lines before a bad one are imported. --policy empty does not look elements up before it adds them. This is faster; an
element that is already present then has two dots until it is next added or removed.`,
		Example: `  bigset set import friends friends.txt
  seq 1000000 | bigset set import numbers --policy empty
  bigset set export --base64 friends | bigset set import --base64 copy
  bigset set import --ack friends friends.txt > done.txt`,
		Args: takes(1, 2),
		RunE: im.run,
	}
	im.writing.flags(cmd)
	im.notation.flag(cmd)
	cmd.Flags().BoolVar(&im.ack, "ack", false, "print the last element of each batch, a line, when the batch is on disk")
	a.recordFlag(cmd)
	return cmd
}

// importer is one run of import: a reader that starts batches, and a loop that finishes them in order.
type importer struct {
	*app
	writing
	notation
	ack bool

	set     []byte
	options bigset.WriteOptions
	input   *lines
	to      target
	landed  uint64 // elements that have been acknowledged
}

// target is where an import adds elements: a store, or a running node.
type target interface {
	add(ctx context.Context, set []byte, elements [][]byte) error
	// flush makes durable what was added without a sync.
	flush(ctx context.Context) error
}

// storeTarget is a store.
type storeTarget struct {
	s *engine.Store
	o bigset.WriteOptions
}

func (t storeTarget) add(ctx context.Context, set []byte, elements [][]byte) error {
	_, err := t.s.Add(ctx, set, elements, t.o)
	return err
}

func (t storeTarget) flush(ctx context.Context) error { return t.s.Flush(ctx) }

// importError says how far an import got before it failed.
type importError struct {
	durable uint64
	cause   error
}

func (e *importError) Error() string {
	return fmt.Sprintf("%s imported and durable, then: %v", tally(e.durable), e.cause)
}

func (e *importError) Unwrap() error { return e.cause }

func (im *importer) run(cmd *cobra.Command, args []string) (err error) {
	if im.set, err = im.setName(cmd, args[0]); err != nil {
		return err
	}
	if im.options, err = im.writing.options(cmd); err != nil {
		return err
	}
	switch {
	case im.ack && im.noSync:
		return usage(cmd, "--ack and --no-sync contradict each other: what is acknowledged is on disk")
	case im.options.Policy == bigset.PolicyRequired:
		return usage(cmd, "--policy required refuses every line: an import has no contexts")
	}
	away, err := im.away(cmd)
	if err != nil {
		return err
	}
	q := im.node.quorum(cmd)
	if away && q.DW == client.NotDurable {
		return usage(cmd, "--no-sync and --dw 0 are not for import with --addr: it reports what is on disk, and nothing would bring the rest there")
	}
	name, in, err := im.open(args[1:])
	if err != nil {
		return err
	}
	defer in.Close()
	im.input = newLines(name, in, im.notation)
	if away {
		return im.ask(func(c *client.Client) error {
			return im.into(cmd.Context(), nodeTarget{c, client.Write{Policy: im.options.Policy, Quorum: q}})
		})
	}
	return im.withStore(making, func(s *engine.Store) error { return im.into(cmd.Context(), storeTarget{s, im.options}) })
}

func (im *importer) into(ctx context.Context, to target) error {
	im.to = to
	return im.finish(ctx, im.stream(ctx))
}

// open opens the input, and returns its name.
func (im *importer) open(args []string) (name string, in io.ReadCloser, err error) {
	if len(args) == 0 || args[0] == "-" {
		return "standard input", io.NopCloser(im.in), nil
	}
	f, err := os.Open(args[0])
	if err != nil {
		return "", nil, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = &os.PathError{Op: "import", Path: args[0], Err: syscall.EISDIR}
	}
	if err != nil {
		f.Close()
		return "", nil, err
	}
	return args[0], f, nil
}

// batch is a batch of elements on their way into the store.
type batch struct {
	elements [][]byte
	inputErr error // why the input ends after them; io.EOF at its normal end
	written  chan error
}

// stream writes the input and acknowledges it in order. It returns nil when the whole input is written.
func (im *importer) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	batches := make(chan *batch, batchesUnderWay)
	go im.feed(ctx, batches)
	for {
		select {
		case b := <-batches:
			if done, err := im.land(b); done || err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// feed reads batches and starts to write them, as many at a time as the channel holds. When the import fails, feed may be left waiting for
// input.
func (im *importer) feed(ctx context.Context, batches chan<- *batch) {
	for {
		b := &batch{written: make(chan error, 1)}
		b.elements, b.inputErr = im.input.batch()
		select {
		case batches <- b:
		case <-ctx.Done():
			return
		}
		go func() { b.written <- im.write(ctx, b.elements) }()
		if b.inputErr != nil {
			return
		}
	}
}

func (im *importer) write(ctx context.Context, elements [][]byte) error {
	if len(elements) == 0 {
		return nil
	}
	return im.to.add(ctx, im.set, elements)
}

// land waits for a batch and acknowledges it. It reports whether the batch was the last.
func (im *importer) land(b *batch) (done bool, err error) {
	if err := <-b.written; err != nil {
		return false, err
	}
	im.landed += uint64(len(b.elements))
	if im.ack && len(b.elements) > 0 {
		if err := im.acknowledge(b.elements[len(b.elements)-1]); err != nil {
			return false, err
		}
	}
	if !im.ack || !im.toTerminal {
		im.progress.show("imported %s", count(im.landed, "element"))
	}
	if b.inputErr == io.EOF {
		return true, nil
	}
	return false, b.inputErr
}

func (im *importer) acknowledge(last []byte) (err error) {
	if im.json {
		err = im.object(struct {
			jsonElement
			Durable uint64 `json:"durable"`
		}{im.jsonElement(last), im.landed})
	} else {
		err = im.line("", last, im.notation)
	}
	if err != nil {
		return err
	}
	return im.out.Flush()
}

// finish makes durable what was written without a sync, and reports the number of elements.
func (im *importer) finish(ctx context.Context, err error) error {
	if im.noSync {
		if e := im.to.flush(context.WithoutCancel(ctx)); e != nil {
			im.landed, err = 0, errors.Join(err, e)
		}
	}
	if err != nil {
		return &importError{im.landed, err}
	}
	return im.answer(struct {
		Imported uint64 `json:"imported"`
	}{im.landed}, "imported %s", tally(im.landed))
}
