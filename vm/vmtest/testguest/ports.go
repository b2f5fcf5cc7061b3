//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"

	"github.com/mdlayher/vsock"

	"osaurus-sandbox/vm/vmtest/guestport"
)

// serveAll serves all ports. It returns only if it fails.
func serveAll() error {
	for port, f := range map[uint32]func(stream){guestport.Echo: echo, guestport.Sink: sink, guestport.Source: source, guestport.Relay: relay} {
		l, err := vsock.Listen(port, nil)
		if err != nil {
			return fmt.Errorf("listen on vsock port %d: %w", port, err)
		}
		go serve(l, f)
	}
	l, err := vsock.Listen(guestport.Control, nil)
	if err != nil {
		return err
	}
	fmt.Println("guest: ready")
	serve(l, control)
	return errors.New("control listener failed")
}

type stream interface {
	net.Conn
	CloseWrite() error
}

func serve(l net.Listener, f func(stream)) {
	for {
		c, err := l.Accept()
		if err != nil {
			fmt.Println("guest: accept:", err)
			return
		}
		go func() {
			defer c.Close()
			f(c.(stream))
		}()
	}
}

func echo(c stream) {
	_, _ = io.Copy(c, c)
	_ = c.CloseWrite()
	_, _ = io.Copy(io.Discard, c)
}

func sink(c stream) {
	n, _ := io.CopyBuffer(struct{ io.Writer }{io.Discard}, c, make([]byte, 256<<10))
	_ = binary.Write(c, binary.LittleEndian, n)
}

func source(c stream) {
	var n int64
	if binary.Read(c, binary.LittleEndian, &n) != nil {
		return
	}
	b := make([]byte, 256<<10)
	for n > 0 {
		k, err := c.Write(b[:min(n, int64(len(b)))])
		n -= int64(k)
		if err != nil {
			return
		}
	}
}

func relay(c stream) {
	b, err := vsock.Dial(vsock.Host, guestport.RelayBack, nil)
	if err != nil {
		return
	}
	defer b.Close()
	if binary.Write(c, binary.LittleEndian, b.LocalAddr().(*vsock.Addr).Port) != nil {
		return
	}
	var wg sync.WaitGroup
	for _, p := range [][2]stream{{c, b}, {b, c}} {
		wg.Go(func() {
			_, _ = io.Copy(p[1], p[0])
			_ = p[1].CloseWrite()
		})
	}
	wg.Wait()
}

// dialMany connects to the host count times at once, and expects an echo.
func dialMany(count string) (string, error) {
	n, err := strconv.Atoi(count)
	if err != nil {
		return "", err
	}
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() {
			c, err := vsock.Dial(vsock.Host, guestport.RelayBack, nil)
			if err != nil {
				errs[i] = err
				return
			}
			defer c.Close()
			msg := fmt.Sprintf("hello %d", i)
			if _, err := io.WriteString(c, msg); err != nil {
				errs[i] = err
				return
			}
			_ = c.CloseWrite()
			b, err := io.ReadAll(c)
			if err == nil && string(b) != msg {
				err = fmt.Errorf("echo of %q is %q", msg, b)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	return count, errors.Join(errs...)
}
