// Command live tests running servers with bloomd's protocol:
//
//	live record ADDR FILE …                asks a real bloomd the requests of scripts, and writes its answers into them
//	live compare [-seed S] [-n N] A B      sends random requests to two servers, and fails if their answers differ
//
// The address "memory" is this package's server with filters in memory. The servers lose all their filters. Start a bloomd with flush_interval and cold_interval 0.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"time"

	"bigset/server/bloomd"
	"bigset/server/bloomd/bloomdtest"
	"bigset/server/door"
)

// settleTime is the time that bloomd needs to finish drops and to sort its names.
const settleTime = 4 * time.Second

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "live:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) > 2 && args[0] == "record":
		return record(args[1], args[2:])
	case len(args) > 2 && args[0] == "compare":
		return compare(args[1:])
	}
	return errors.New("usage: live record ADDR FILE … | live compare [-seed S] [-n N] ADDR ADDR")
}

func record(addr string, files []string) error {
	c, err := bloomd.Dial(context.Background(), addr)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, file := range files {
		if err := recordFile(c, file); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

func recordFile(c *bloomd.Client, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	script, err := bloomdtest.Parse(text)
	if err != nil {
		return err
	}
	if err := empty(c); err != nil {
		return err
	}
	more := func() ([]byte, error) { return c.Receive() }
	if err := script.Record(c.Do, more, func() { time.Sleep(settleTime) }); err != nil {
		return err
	}
	if out := []byte(script.String()); !bytes.Equal(out, text) {
		fmt.Println(file, "has changed")
		return os.WriteFile(file, out, 0o644)
	}
	fmt.Println(file, "is as it was")
	return nil
}

// empty drops all filters.
func empty(c *bloomd.Client) error {
	infos, err := c.List(nil)
	if err != nil {
		return err
	}
	for _, i := range infos {
		if err := c.Drop([]byte(i.Name)); err != nil {
			return err
		}
	}
	if len(infos) > 0 {
		time.Sleep(settleTime)
	}
	return nil
}

// dial connects to a server. One in memory ends with the program.
func dial(addr string) (*bloomd.Client, error) {
	if addr != "memory" {
		return bloomd.Dial(context.Background(), addr)
	}
	s, err := bloomd.New(bloomdtest.NewMemory(), door.Options{})
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go s.Serve(context.Background(), ln) // what fails there the client sees
	return bloomd.Dial(context.Background(), ln.Addr().String())
}

func compare(args []string) error {
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	seed := flags.Uint64("seed", uint64(time.Now().UnixNano()), "of the random requests")
	n := flags.Int("n", 100_000, "requests")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 2 {
		return errors.New("compare needs two addresses")
	}
	var servers [2]*bloomd.Client
	for i := range servers {
		c, err := dial(flags.Arg(i))
		if err != nil {
			return err
		}
		defer c.Close()
		if err := empty(c); err != nil {
			return err
		}
		servers[i] = c
	}
	if err := bloomdtest.Compare(*seed, *n, servers[0], servers[1]); err != nil {
		return err
	}
	fmt.Printf("seed %d: %d answers are equal\n", *seed, *n)
	return nil
}
