// Command redisload does what redis-benchmark does not, for .ci/redis-bench and .ci/redis-memory:
//
//	redisload raw [-sync always|everysec|no] [-seeks] ADDR DIR
//	                                                    serves SADD and SISMEMBER from Pebble alone, by the door and the protocol of a node; -seeks: by an iterator for each call, not by Get
//	redisload fill ADDR KEY FIRST N                     adds N numbers to a set
//	redisload sscan ADDR KEY COUNT                      goes through a set, and prints elements a second
//	redisload crowd ADDR KEY KIND DURATION [AT]         measures a client beside others: none, stalled, slow or flood, or
//	                                                    none-adds and adds, among which it adds; keys, scan, count or changes, commands that read much;
//	                                                    they disturb the server at AT, not the client's
//	redisload disturb ADDR KIND                         is such others until its input ends
//	redisload idle [-tls] ADDR N PID                    opens N connections, and prints the memory of a process before and after
//	redisload grow ADDR KEY N BYTES PARTS               adds N members of BYTES each, in parts, and prints members and adds a second of each
//	redisload look ADDR KEY N BYTES DURATION            asks for members that grow has made, and prints how many were found a second
//
// It prints figures, and nothing else, to its standard output.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"time"
)

var errUsage = errors.New("usage: redisload raw [-sync always|everysec|no] [-seeks] ADDR DIR | fill ADDR KEY FIRST N | sscan ADDR KEY COUNT | crowd ADDR KEY none|stalled|slow|flood|none-adds|adds|keys|scan|count|changes DURATION [AT] | disturb ADDR stalled|slow|flood|adds|keys|scan|count|changes | idle [-tls] ADDR N PID | grow ADDR KEY N BYTES PARTS | look ADDR KEY N BYTES DURATION")

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "redisload:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	sync := flags.String("sync", "always", "when changes are synced: always, everysec or no")
	secure := flags.Bool("tls", false, "idle connections have TLS, and check no certificate")
	seeks := flags.Bool("seeks", false, "look keys up by one iterator for each call")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	rest := flags.Args()
	want := map[string]int{"raw": 2, "fill": 4, "sscan": 3, "crowd": 5, "disturb": 2, "idle": 3, "grow": 5, "look": 5}[args[0]]
	if args[0] == "crowd" && len(rest) == want-1 {
		rest = append(rest, rest[0])
	}
	if want == 0 || len(rest) != want {
		return errUsage
	}
	switch args[0] {
	case "raw":
		return serveRaw(rest[0], rest[1], *sync, *seeks)
	case "fill":
		first, err := strconv.Atoi(rest[2])
		n, err2 := strconv.Atoi(rest[3])
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		return fill(rest[0], rest[1], first, n)
	case "sscan":
		n, took, err := scan(rest[0], rest[1], rest[2])
		if err == nil {
			fmt.Printf("%.0f %d\n", float64(n)/took.Seconds(), n)
		}
		return err
	case "crowd":
		d, err := time.ParseDuration(rest[3])
		if err != nil {
			return err
		}
		return crowd(rest[0], rest[1], rest[2], rest[4], d)
	case "disturb":
		return disturb(rest[0], rest[1], os.Stdin, os.Stdout)
	case "grow", "look":
		n, err := strconv.Atoi(rest[2])
		bytes, err2 := strconv.Atoi(rest[3])
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		if args[0] == "grow" {
			parts, err := strconv.Atoi(rest[4])
			if err != nil {
				return err
			}
			return grow(rest[0], rest[1], n, bytes, parts)
		}
		d, err := time.ParseDuration(rest[4])
		if err != nil {
			return err
		}
		return look(rest[0], rest[1], n, bytes, d)
	default:
		n, err := strconv.Atoi(rest[1])
		if err != nil {
			return err
		}
		return idle(rest[0], n, rest[2], *secure)
	}
}
