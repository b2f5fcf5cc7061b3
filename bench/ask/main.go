//go:build linux

// Command ask asks for one value, again and again, and prints how long a request took, in nanoseconds: ask WAY CLIENTS SECONDS with many clients at once, ask WAY REQUESTS one by one, each over a connection of its own. A way is room, past the bridge, vsock, straight to the host, or plain, which is vsock with net/http's own client.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
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

// asker asks for the value, as many goroutines as there are at once.
type asker interface {
	Config(ctx context.Context, key string) (string, error)
	Close()
}

func run(args []string) error {
	way, err := wayOf(args[0])
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	if len(args) == 2 {
		return oneByOne(way, n)
	}
	limit, err := time.ParseDuration(args[2] + "s")
	if err != nil {
		return err
	}
	return crowd(way(), n, limit)
}

func wayOf(name string) (func() asker, error) {
	dial := func() (net.Conn, error) { return vsock.Dial(vsock.Host, rawPort, nil) }
	o := client.Options{Plugin: "bench"}
	switch name {
	case "plain":
		return func() asker { return newPlain(dial) }, nil
	case "vsock":
		o.Dial = dial
	default:
		found, err := filepath.Glob(filepath.Join(wire.TokenDir, os.Getenv("USER")+".token"))
		if err != nil || len(found) != 1 {
			return nil, fmt.Errorf("no token: %v", err)
		}
		token, err := os.ReadFile(found[0])
		if err != nil {
			return nil, err
		}
		o.Token = strings.TrimSpace(string(token))
	}
	return func() asker { return client.New(o) }, nil
}

// plain is what a program without this project's client would do.
type plain struct{ http *http.Client }

func newPlain(dial func() (net.Conn, error)) plain {
	return plain{&http.Client{Transport: &http.Transport{
		DialContext:         func(context.Context, string, string) (net.Conn, error) { return dial() },
		MaxIdleConnsPerHost: 64, // as many as there are clients
	}}}
}

func (p plain) Config(ctx context.Context, key string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+wire.PathConfig+key, nil)
	if err != nil {
		return "", err
	}
	answer, err := p.http.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return "", err
	}
	var v wire.Value
	return v.Value, json.Unmarshal(text, &v)
}

func (p plain) Close() { p.http.CloseIdleConnections() }

// oneByOne asks over a new connection each time.
func oneByOne(way func() asker, n int) error {
	for range n {
		c := way()
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
func crowd(c asker, clients int, limit time.Duration) error {
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
