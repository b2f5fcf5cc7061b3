//go:build linux

// Command ask asks the bridge for one value, again and again, and prints how long each request took, in nanoseconds: ask room|vsock CLIENTS SECONDS. With no seconds it asks a number of times instead, each over a connection of its own: ask room|vsock REQUESTS.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mdlayher/vsock"

	"osaurus-sandbox/bridge/client"
	"osaurus-sandbox/bridge/wire"
)

// rawPort is where the host serves the same without a bridge around it.
const rawPort = 1999

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "ask:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	o := client.Options{Plugin: "bench"}
	if args[0] == "vsock" {
		o.Dial = func() (net.Conn, error) { return vsock.Dial(vsock.Host, rawPort, nil) }
	} else {
		found, err := filepath.Glob(filepath.Join(wire.TokenDir, os.Getenv("USER")+".token"))
		if err != nil || len(found) != 1 {
			return fmt.Errorf("no token: %v", err)
		}
		token, err := os.ReadFile(found[0])
		if err != nil {
			return err
		}
		o.Token = strings.TrimSpace(string(token))
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	if len(args) == 2 {
		return oneByOne(o, n)
	}
	limit, err := time.ParseDuration(args[2] + "s")
	if err != nil {
		return err
	}
	return crowd(o, n, limit)
}

// oneByOne asks over a new connection each time.
func oneByOne(o client.Options, n int) error {
	for range n {
		c := client.New(o)
		began := time.Now()
		if _, err := c.Config(context.Background(), "key"); err != nil {
			return err
		}
		fmt.Println(time.Since(began).Nanoseconds())
		c.Close()
	}
	return nil
}

// crowd has many goroutines ask through one client, and prints how many
// nanoseconds one request takes of the time of all.
func crowd(o client.Options, clients int, limit time.Duration) error {
	c := client.New(o)
	defer c.Close()
	var asked atomic.Int64
	var failed atomic.Pointer[error]
	began := time.Now()
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for time.Since(began) < limit && failed.Load() == nil {
				if _, err := c.Config(context.Background(), "key"); err != nil {
					failed.Store(&err)
				}
				asked.Add(1)
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	fmt.Println(time.Since(began).Nanoseconds() / asked.Load())
	return nil
}
