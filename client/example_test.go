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
	if _, err := c.Add(ctx, "friends", "paul", "ringo", "george"); err != nil {
		log.Fatal(err)
	}
	for e, err := range c.Elements(ctx, client.Read{Set: []byte("friends")}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(e.Name))
	}

	// A remove with a context removes what was seen. Someone adds paul again in between, so he stays.
	found, err := c.Subset(ctx, client.Subset{Set: []byte("friends"), Elements: [][]byte{[]byte("paul")}})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := c.Add(ctx, "friends", "paul"); err != nil {
		log.Fatal(err)
	}
	w, err := c.Write(ctx, client.Write{
		Set: []byte("friends"),
		Ops: []client.Op{{Kind: client.OpRemove, Element: []byte("paul"), Context: found[0].Context}},
	})
	fmt.Println(w.Removed, "removed", err)
	// Output:
	// george
	// paul
	// ringo
	// 0 removed <nil>
}
