package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// others is how many clients disturb.
const others = 10

// disturbers are the kinds of clients that disturb: stalled ones ask for a set of 10,000 elements, which the key "many" has, and never read the answers, slow ones read some
// of them, and flooding ones send pipelines as fast as they are read: questions, adds to the key "flooded", or commands that read much: KEYS and SCAN of 10,000 keys, and of the key
// "many" BS.COUNT and BS.CHANGES, which redis does not know.
var disturbers = map[string]func(*client, *atomic.Bool){"stalled": stall, "slow": slow, "flood": flood, "adds": floodAdds,
	"keys": floodOf("KEYS", "nothing*"), "scan": floodOf("SCAN", "0", "COUNT", "10000", "MATCH", "nothing*"),
	"count": floodOf("BS.COUNT", "many", "FROM", "a"), "changes": floodOf("BS.CHANGES", "many", "", "LIMIT", "10000")}

// crowd measures a client that asks for elements, one after the other, while a process with others disturbs the server at another address, which may be the same. If the others
// add, the client adds as well. It prints the median and the 99th part in microseconds, how many requests there were, and the longest one: a server that stops for others delays few
// requests of a client that sends one after the other.
func crowd(addr, key, kind, at string, d time.Duration) error {
	kind, adds := strings.CutSuffix(kind, "-adds")
	if kind != "none" {
		end, err := disturbed(at, kind)
		if err != nil {
			return err
		}
		defer end()
	}
	cmd := "SISMEMBER"
	if adds || kind == "adds" {
		cmd = "SADD"
	}
	took, err := ask(addr, cmd, key, d)
	if err != nil {
		return err
	}
	slices.Sort(took)
	fmt.Printf("%d %d %d %d\n", took[len(took)/2].Microseconds(), took[len(took)*99/100].Microseconds(), len(took), took[len(took)-1].Microseconds())
	return nil
}

// disturbed runs this program as another process, which disturbs a server until end is called. In this process, the others would delay the client that is measured.
func disturbed(addr, kind string) (end func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.Command(self, "disturb", addr, kind)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	end = func() {
		in.Close()
		c.Wait()
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		end()
		return nil, fmt.Errorf("clients that are %s at %s: %w", kind, addr, err)
	}
	return end, nil
}

// disturb disturbs a server until in ends. It writes a line when all clients have begun.
func disturb(addr, kind string, in io.Reader, out io.Writer) error {
	f := disturbers[kind]
	if f == nil {
		return errUsage
	}
	if kind == "keys" || kind == "scan" {
		if err := makeKeys(addr); err != nil {
			return err
		}
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	var list []*client
	defer wg.Wait()
	defer func() {
		stop.Store(true)
		for _, c := range list {
			c.nc.Close()
		}
	}()
	for range others {
		c, err := dial(addr)
		if err != nil {
			return err
		}
		list = append(list, c)
		wg.Go(func() { f(c, &stop) })
	}
	if _, err := fmt.Fprintln(out, "begun"); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, in)
	return err
}

// ask sends requests one after the other and returns how long each took.
func ask(addr, cmd, key string, d time.Duration) (took []time.Duration, err error) {
	c, err := dial(addr)
	if err != nil {
		return nil, err
	}
	defer c.nc.Close()
	first := 0
	if cmd == "SADD" {
		first = rand.IntN(1 << 40) // so that the elements are new
	}
	for until := time.Now().Add(d); ; {
		began := time.Now()
		if began.After(until) && len(took) > 0 {
			return took, nil
		}
		if _, err := c.do(cmd, key, name(first+len(took))); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
		time.Sleep(200 * time.Microsecond) // a client that works, not one that floods
	}
}

// stall asks for much and reads nothing, until its requests are not read either.
func stall(c *client, _ *atomic.Bool) {
	some := appendRequest(nil, "SMEMBERS", "many")
	for {
		if _, err := c.nc.Write(some); err != nil {
			return
		}
	}
}

// slow asks for much and reads little of it at a time.
func slow(c *client, stop *atomic.Bool) {
	some := []byte(strings.Repeat(string(appendRequest(nil, "SMEMBERS", "many")), 100))
	part := make([]byte, 1000)
	go c.nc.Write(some)
	for !stop.Load() {
		if _, err := c.nc.Read(part); err != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// flood sends questions as fast as they are taken, and reads the answers.
func flood(c *client, _ *atomic.Bool) {
	some := []byte(strings.Repeat(string(appendRequest(nil, "SISMEMBER", "flooded", "element")), 500))
	go io.Copy(io.Discard, c.nc)
	for {
		if _, err := c.nc.Write(some); err != nil {
			return
		}
	}
}

// floodAdds is flood with adds of new elements.
func floodAdds(c *client, _ *atomic.Bool) {
	go io.Copy(io.Discard, c.nc)
	for i := rand.IntN(1 << 40); ; {
		var some []byte
		for range 500 {
			some = appendRequest(some, "SADD", "flooded", name(i))
			i++
		}
		if _, err := c.nc.Write(some); err != nil {
			return
		}
	}
}

// floodOf returns what sends a command as fast as it is answered.
func floodOf(args ...string) func(*client, *atomic.Bool) {
	return func(c *client, stop *atomic.Bool) {
		if _, err := c.do(args...); err != nil && !stop.Load() { // the others' answers are not looked at
			fmt.Fprintf(os.Stderr, "redisload: %s: %v\n", args[0], err)
			return
		}
		some := []byte(strings.Repeat(string(appendRequest(nil, args...)), 10))
		go io.Copy(io.Discard, c.nc)
		for {
			if _, err := c.nc.Write(some); err != nil {
				return
			}
		}
	}
}

// keysListed is how many keys a flood that lists keys makes before it begins.
const keysListed = 10_000

// makeKeys makes the keys of a flood that lists keys, if they do not exist.
func makeKeys(addr string) error {
	c, err := dial(addr)
	if err != nil {
		return err
	}
	defer c.nc.Close()
	var all []byte
	for i := range keysListed {
		all = appendRequest(all, "SADD", "listed:"+name(i), "element")
	}
	go c.nc.Write(all) // the connection is closed if this fails
	for range keysListed {
		if _, err := c.read(); err != nil {
			return err
		}
	}
	return nil
}

// idle opens connections that send nothing, and prints the resident memory of a process in kB before and after, and how many connections there are: the limit of open files may
// let fewer be.
func idle(addr string, n int, pid string, secure bool) error {
	before, err := resident(pid)
	if err != nil {
		return err
	}
	var list []*client
	defer func() {
		for _, c := range list {
			c.nc.Close()
		}
	}()
	open := dial
	if secure {
		open = dialTLS
	}
	for range n {
		c, err := open(addr)
		if err == nil {
			_, err = c.do("PING")
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "redisload:", err)
			break
		}
		list = append(list, c)
	}
	after, err := resident(pid)
	if err == nil {
		fmt.Printf("%s %s %d\n", before, after, len(list))
	}
	return err
}

// resident returns the resident memory of a process in kB.
func resident(pid string) (string, error) {
	status, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return "", fmt.Errorf("process %s has no memory", pid)
	}
	return fields[0], nil
}
