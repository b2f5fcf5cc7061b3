package boot_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/supervisor/boot"
)

// Any ports but the guest service's own.
const fromGuest, toGuest = 7000, 7001

// socatPatience bounds each exchange with socat.
const socatPatience = time.Minute

// testSocat lets a program that nobody here wrote judge the vsock device, from
// either end: what it is sent must come back.
func testSocat(t *testing.T, g *boot.Guest) {
	sent := make([]byte, 1<<20)
	_, _ = rand.Read(sent) // never fails

	t.Run("socat connects to the host", func(t *testing.T) {
		l, err := g.Machine.Listen(fromGuest)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			c, err := l.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			if _, err := io.Copy(c, c); err != nil {
				t.Error(err)
			}
		}()
		var back, said bytes.Buffer
		exit, err := g.Client.Run(t.Context(), engine.Command{
			Args:  []string{"socat", "-", fmt.Sprintf("VSOCK-CONNECT:2:%d", fromGuest)},
			Stdin: bytes.NewReader(sent), Stdout: &back, Stderr: &said, Timeout: socatPatience,
		})
		if err != nil || exit.Status() != 0 || !bytes.Equal(back.Bytes(), sent) {
			t.Errorf("%v, %+v, %d bytes came back: %s", err, exit, back.Len(), said.String())
		}
	})
	t.Run("the host connects to socat", func(t *testing.T) {
		var said bytes.Buffer
		p, err := g.Client.Exec(t.Context(), engine.Command{
			Args: []string{"socat", fmt.Sprintf("VSOCK-LISTEN:%d", toGuest), "EXEC:cat"}, Stderr: &said, Timeout: socatPatience,
		})
		if err != nil {
			t.Fatal(err)
		}
		c, err := dial(t, g)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(socatPatience)); err != nil {
			t.Fatal(err)
		}
		go func() {
			if _, err := c.Write(sent); err != nil {
				t.Error(err)
			}
		}()
		back := make([]byte, len(sent))
		if _, err := io.ReadFull(c, back); err != nil || !bytes.Equal(back, sent) {
			t.Errorf("what came back is not what was sent: %v", err)
		}
		c.Close()
		if exit, err := p.Wait(); err != nil || exit.Status() != 0 {
			t.Errorf("socat: %v, %+v: %s", err, exit, said.String())
		}
	})
}

// dial connects to socat as soon as it listens.
func dial(t *testing.T, g *boot.Guest) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(t.Context(), socatPatience)
	defer cancel()
	for {
		c, err := g.Machine.Dial(ctx, toGuest)
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return c, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}
