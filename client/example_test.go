package client_test

import (
	"context"
	"fmt"
	"log"

	"bigset/client"
)

func Example() {
	c, err := client.Open(client.Options{Addrs: []string{"127.0.0.1:8691", "127.0.0.1:8692", "127.0.0.1:8693"}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()
	if _, err := c.Add(ctx, "friends", "paul", "ringo"); err != nil {
		log.Fatal(err)
	}
	for part, err := range c.Read(ctx, client.Read{Set: []byte("friends")}) {
		if err != nil {
			log.Fatal(err)
		}
		for _, e := range part.Elements {
			fmt.Println(string(e.Name))
		}
	}
}
