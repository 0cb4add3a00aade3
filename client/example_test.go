package client_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"bigset/client"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/server/alone"
	"bigset/server/api"
	"bigset/server/wire"
)

// node starts a node in this process, as bigset serve --listen does in its own.
func node() (addr string) {
	s, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk(), BackgroundInterval: -1})
	if err != nil {
		log.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	srv := wire.NewServer(wire.ServerOptions{Options: wire.Options{Errors: api.Errors{}}, Handler: api.Handler(alone.New(s))})
	go func() { _ = srv.Serve(context.Background(), ln) }()
	return ln.Addr().String()
}

func Example() {
	c, err := client.Open(client.Options{Addrs: []string{node()}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()
	friends := c.Set("friends")
	if _, err := friends.Add(ctx, "paul", "ringo", "george"); err != nil {
		log.Fatal(err)
	}
	for name, err := range friends.Elements(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(name)
	}

	// A remove with a context removes what was seen. Someone adds paul again in between, so he stays.
	paul, err := friends.Look(ctx, "paul")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := friends.Add(ctx, "paul"); err != nil {
		log.Fatal(err)
	}
	w, err := friends.RemoveSeen(ctx, "paul", paul.Context)
	fmt.Println(w.Removed, "removed", err)
	// Output:
	// george
	// paul
	// ringo
	// 0 removed <nil>
}
