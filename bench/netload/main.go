//go:build linux

// Command netload measures two ways from a guest to the same server in turns:
// netload WHAT ROUNDS COUNT A B. It prints the nanoseconds of both for each round.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	// chunk is what it writes at once.
	chunk = 256 << 10
	// workers make connections at once, and floodWorkers in a flood.
	workers, floodWorkers = 16, 64
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 4 {
		return errors.New("usage: netload WHAT ROUNDS COUNT ADDRESS [ADDRESS]")
	}
	rounds, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	count, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	var ways []func() (time.Duration, error)
	for _, address := range args[3:] {
		way, err := open(args[0], address, count)
		if err != nil {
			return err
		}
		ways = append(ways, way)
	}
	took := make([]time.Duration, len(ways))
	for round := range rounds + 1 { // the first one warms up
		for i := range ways {
			if round%2 == 1 {
				i = len(ways) - 1 - i
			}
			if took[i], err = ways[i](); err != nil {
				return err
			}
		}
		if round > 0 {
			for _, d := range took {
				fmt.Print(d.Nanoseconds(), " ")
			}
			fmt.Println()
		}
	}
	return nil
}

// open returns a function that measures one round of one way.
func open(what, address string, count int) (func() (time.Duration, error), error) {
	switch what {
	case "connect":
		return func() (time.Duration, error) { return connect(address, count, workers, true) }, nil
	case "flood":
		return func() (time.Duration, error) { return connect(address, count, floodWorkers, false) }, nil
	case "dns":
		return lookUp(address, count), nil
	case "tls":
		return download(address, count), nil
	}
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	switch what {
	case "send":
		return timed(func() error { return send(c, count) }), nil
	case "receive":
		return timed(func() error { return receive(c, count) }), nil
	case "echo":
		return func() (time.Duration, error) { return typical(count, func() error { return echo(c) }) }, nil
	}
	return nil, fmt.Errorf("unknown load %q", what)
}

func timed(f func() error) func() (time.Duration, error) {
	return func() (time.Duration, error) {
		began := time.Now()
		err := f()
		return time.Since(began), err
	}
}

// typical returns the median time of a function.
func typical(count int, f func() error) (time.Duration, error) {
	took := make([]time.Duration, count)
	for i := range took {
		began := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return took[count/2], nil
}

// send sends bytes, and waits until the server says that it has them.
func send(c net.Conn, count int) error {
	for b := make([]byte, chunk); count > 0; count -= len(b) {
		b = b[:min(count, len(b))]
		if _, err := c.Write(b); err != nil {
			return err
		}
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

// receive asks for bytes, and reads them.
func receive(c net.Conn, count int) error {
	if _, err := c.Write([]byte{1}); err != nil {
		return err
	}
	_, err := io.CopyN(io.Discard, c, int64(count))
	return err
}

func echo(c net.Conn) error {
	b := []byte{1}
	if _, err := c.Write(b); err != nil {
		return err
	}
	_, err := io.ReadFull(c, b)
	return err
}

// connect makes and ends connections, several at once. A flood goes on after an error.
func connect(address string, count, workers int, strict bool) (time.Duration, error) {
	began, failed := time.Now(), make(chan error, workers)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range count / workers {
				c, err := net.Dial("tcp", address)
				if err == nil {
					c.Close()
				} else if strict {
					failed <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(failed)
	return time.Since(began), <-failed
}

// lookUp asks a name server for addresses.
func lookUp(server string, count int) func() (time.Duration, error) {
	r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, server)
	}}
	return func() (time.Duration, error) {
		return typical(count, func() error {
			_, err := r.LookupNetIP(context.Background(), "ip4", "www.example.com.")
			return err
		})
	}
}

// download reads from a web server, whose certificate does not matter here.
func download(host string, count int) func() (time.Duration, error) {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	return timed(func() error {
		answer, err := client.Get(fmt.Sprintf("https://%s/%d", host, count))
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		n, err := io.Copy(io.Discard, answer.Body)
		if err == nil && n != int64(count) {
			err = fmt.Errorf("%s: %d bytes: %s", answer.Status, n, host)
		}
		return err
	})
}
