//go:build linux

// Command netload measures a TCP connection from a guest to a server of the bench: netload WHAT ADDRESS COUNT. It prints nanoseconds.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"
)

// chunk is what it writes or reads at once.
const chunk = 256 << 10

// workers make connections at once.
const workers = 16

func main() {
	took, err := measure(os.Args[1], os.Args[2], os.Args[3])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(took.Nanoseconds())
}

func measure(what, address, text string) (time.Duration, error) {
	count, err := strconv.Atoi(text)
	if err != nil {
		return 0, err
	}
	switch what {
	case "connect":
		return connect(address, count)
	case "echo":
		return echo(address, count)
	}
	began := time.Now()
	c, err := net.Dial("tcp", address)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if what == "send" {
		err = send(c, count)
	} else {
		_, err = io.CopyN(io.Discard, c, int64(count))
	}
	return time.Since(began), err
}

// send sends bytes, and waits until the server says that it has them.
func send(c net.Conn, count int) error {
	for b := make([]byte, chunk); count > 0; count -= len(b) {
		b = b[:min(count, len(b))]
		if _, err := c.Write(b); err != nil {
			return err
		}
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

// echo returns the median of round trips of a byte.
func echo(address string, count int) (time.Duration, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	took, b := make([]time.Duration, count), []byte{1}
	for i := range took {
		began := time.Now()
		if _, err := c.Write(b); err != nil {
			return 0, err
		}
		if _, err := io.ReadFull(c, b); err != nil {
			return 0, err
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return took[count/2], nil
}

// connect makes and ends connections, several at once.
func connect(address string, count int) (time.Duration, error) {
	began, failed := time.Now(), make(chan error, workers)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range count / workers {
				c, err := net.Dial("tcp", address)
				if err != nil {
					failed <- err
					return
				}
				c.Close()
			}
		})
	}
	all.Wait()
	close(failed)
	return time.Since(began), <-failed
}
