package server

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"bigset/server/certs"
)

// nameServer answers questions for the address of one name, and of no other, by DNS over a stream.
type nameServer struct {
	name    string
	address atomic.Pointer[netip.Addr] // an IPv4 address
	asked   atomic.Int64
}

// dial is a Dial of net.Resolver.
func (n *nameServer) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() {
		defer ours.Close()
		for n.answer(ours) == nil {
		}
	}()
	return theirs, nil
}

// answer answers one question.
func (n *nameServer) answer(c net.Conn) error {
	var size [2]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return err
	}
	question := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(c, question); err != nil {
		return err
	}
	const header = 12
	if len(question) < header {
		return errors.New("a short question")
	}
	var labels []string
	at := header
	for question[at] != 0 {
		end := at + 1 + int(question[at])
		labels = append(labels, string(question[at+1:end]))
		at = end
	}
	kind := binary.BigEndian.Uint16(question[at+1:])
	answer := append([]byte{question[0], question[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question[header:at+5]...) // a response without answers
	switch {
	case strings.Join(labels, ".") != n.name:
		answer[3] |= 3 // no such name
	case kind == 1: // an IPv4 address
		n.asked.Add(1)
		answer[7] = 1
		answer = append(answer, 0xc0, header, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		answer = append(answer, n.address.Load().AsSlice()...)
	}
	_, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
	return err
}

// TestNameMoves: a member that starts again at another address, to which its name leads then, is found by the others.
func TestNameMoves(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("this machine has one loopback address")
	}
	names := &nameServer{name: "c.test"}
	moveTo := func(address string) { names.address.Store(new(netip.MustParseAddr(address))) }
	moveTo("127.0.0.1")
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: names.dial}
	t.Cleanup(func() { net.DefaultResolver = before })
	dir, issue := issuer(t)
	var last Config
	port := ""
	nodes := startCluster(t, 3, func(i int, c *Config) {
		c.Peers.Insecure = false
		if at := strings.LastIndex(c.Peers.Peers, "127.0.0.1:"); at >= 0 {
			port = c.Peers.Peers[at+len("127.0.0.1:"):]
			c.Peers.Peers = c.Peers.Peers[:at] + names.name + ":" + port
		}
		if c.Peers.TLS = issue(certs.RoleNode, string(rune('a'+i))); i == 2 {
			hosts := []string{names.name}
			c.Peers.TLS += "-named"
			if _, err := certs.Issue(c.Peers.TLS, certs.IssueOptions{CA: dir + "/ca", Role: certs.RoleNode, Name: "c", Hosts: hosts}); err != nil {
				t.Fatal(err)
			}
			c.Peers.Listen = "127.0.0.1:" + port
			last = *c
		}
	})
	stopNode(t, nodes[2])
	awaitGone(t, nodes[:2], "c") // before it starts again: otherwise they may be said to be connected to it because they don't know yet
	moveTo("127.0.0.2")
	last.Peers.Listen = "127.0.0.2:" + port
	asked := names.asked.Load()
	nodes[2] = startNode(t, last)
	awaitOthers(t, nodes[:2], "c")
	if names.asked.Load() == asked {
		t.Error("nobody asked for the new address")
	}
}
