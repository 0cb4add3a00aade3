package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// client is a connection of the protocol of redis, which one goroutine uses.
type client struct {
	nc net.Conn
	in *bufio.Reader
}

func dial(addr string) (*client, error) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &client{nc: nc, in: bufio.NewReaderSize(nc, 64<<10)}, nil
}

// dialTLS is dial for any server with TLS.
func dialTLS(addr string) (*client, error) {
	nc, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return nil, err
	}
	return &client{nc: nc, in: bufio.NewReaderSize(nc, 1<<10)}, nil
}

// appendRequest appends a request.
func appendRequest(dst []byte, args ...string) []byte {
	dst = fmt.Appendf(dst, "*%d\r\n", len(args))
	for _, a := range args {
		dst = fmt.Appendf(dst, "$%d\r\n%s\r\n", len(a), a)
	}
	return dst
}

// reply is what a server has answered.
type reply struct {
	text string  // of all that is no list
	list []reply // of a list
}

// line returns the next line without its end.
func (c *client) line() (string, error) {
	s, err := c.in.ReadString('\n')
	return strings.TrimSuffix(s, "\r\n"), err
}

// read reads a reply; one that is an error is one.
func (c *client) read() (reply, error) {
	line, err := c.line()
	if err != nil {
		return reply{}, err
	}
	if line == "" {
		return reply{}, fmt.Errorf("an empty line in place of a reply")
	}
	switch kind, rest := line[0], line[1:]; kind {
	case '-':
		return reply{}, fmt.Errorf("%s", rest)
	case '$', '*':
		n, err := strconv.Atoi(rest)
		if err != nil {
			return reply{}, err
		}
		if kind == '$' {
			b := make([]byte, max(0, n)+2)
			if n < 0 {
				return reply{}, nil
			}
			_, err := io.ReadFull(c.in, b)
			return reply{text: string(b[:n])}, err
		}
		list := make([]reply, max(0, n))
		for i := range list {
			if list[i], err = c.read(); err != nil {
				return reply{}, err
			}
		}
		return reply{list: list}, nil
	default:
		return reply{text: rest}, nil
	}
}

// do sends a request and returns its reply.
func (c *client) do(args ...string) (reply, error) {
	if _, err := c.nc.Write(appendRequest(nil, args...)); err != nil {
		return reply{}, err
	}
	return c.read()
}

// name returns an element that redis keeps as text: a number would take another encoding there in small sets.
func name(i int) string { return fmt.Sprintf("element:%012d", i) }

// fill adds elements, some hundred at a time.
func fill(addr, key string, first, n int) error {
	const some = 500
	c, err := dial(addr)
	if err != nil {
		return err
	}
	defer c.nc.Close()
	for done := 0; done < n; {
		args := []string{"SADD", key}
		for ; done < n && len(args) < some; done++ {
			args = append(args, name(first+done))
		}
		if _, err := c.do(args...); err != nil {
			return err
		}
	}
	return nil
}

// scan goes through a set by SSCAN.
func scan(addr, key, count string) (n int, took time.Duration, err error) {
	c, err := dial(addr)
	if err != nil {
		return 0, 0, err
	}
	defer c.nc.Close()
	began := time.Now()
	for cursor := "0"; ; {
		r, err := c.do("SSCAN", key, cursor, "COUNT", count)
		if err != nil {
			return n, 0, err
		}
		if len(r.list) != 2 {
			return n, 0, fmt.Errorf("SSCAN answers %d values", len(r.list))
		}
		n += len(r.list[1].list)
		if cursor = r.list[0].text; cursor == "0" {
			return n, time.Since(began), nil
		}
	}
}
