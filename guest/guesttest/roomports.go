package guesttest

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
)

// The ports of bob's server. Nothing listens on nobodys.
const (
	port4, port6, nobodys = 4720, 4721, 4722
)

// ports checks connections from the host to servers in a room.
func ports(ctx context.Context, t *testing.T, alice, bob *agent) {
	said := serves(ctx, t, bob)
	t.Run("Both ways", func(t *testing.T) {
		large := make([]byte, 4<<20)
		_, _ = rand.Read(large)
		for port, from := range map[config.Port]string{port4: "127.0.0.1", port6: "::1"} {
			if err := echoes(ctx, bob, port, large, from); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("Server ends first", func(t *testing.T) {
		c := bob.connect(ctx, t, "h")
		if text, err := io.ReadAll(c); string(text) != "bye" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
		if _, err := c.Write(make([]byte, 1<<20)); err != nil {
			t.Error(err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Error(err)
		}
		said.wait(ctx, t)
	})
	t.Run("Nothing listens", func(t *testing.T) {
		for a, port := range map[*agent]config.Port{bob: nobodys, alice: port4} {
			if _, err := a.suite.Client.ConnectPort(ctx, a.User, port); fault.KindOf(err) != fault.NotFound || !strings.Contains(err.Error(), "nothing listens on it") {
				t.Errorf("%d of %s: %v", port, a.User, err)
			}
		}
		if _, err := bob.suite.Client.ConnectPort(ctx, engine.Root, port4); fault.KindOf(err) != fault.InvalidArgs {
			t.Errorf("the guest's own: %v", err)
		}
	})
	t.Run("Many", func(t *testing.T) {
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				if err := echoes(ctx, bob, port4, bytes.Repeat([]byte{byte(i)}, 100<<10), "127.0.0.1"); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	})
	t.Run("Nothing is read", func(t *testing.T) { unread(ctx, t, bob) })
	t.Run("Too many", func(t *testing.T) { tooManyPorts(ctx, t, alice, bob) })
	t.Run("No network", func(t *testing.T) {
		bob.alone = true
		defer func() {
			bob.alone = false
			bob.ensure(ctx, t)
		}()
		bob.ensure(ctx, t)
		eventually(ctx, t, func() bool { // the guest may still be closing the connections of before
			err := echoes(ctx, bob, port4, []byte("alone"), "127.0.0.1")
			if err != nil && fault.KindOf(err) != fault.Rejected {
				t.Fatal(err)
			}
			return err == nil
		})
	})
	t.Run("The room ends", func(t *testing.T) {
		c := bob.connect(ctx, t, "e")
		if err := bob.suite.Client.RemoveRoom(ctx, bob.User, false); err != nil {
			t.Fatal(err)
		}
		// Its end or that of its server comes first.
		if _, err := io.ReadAll(c); err != nil && fault.KindOf(err) != fault.Unavailable {
			t.Error(err)
		}
		bob.ensure(ctx, t)
		if err := echoes(ctx, bob, port4, nil, ""); fault.KindOf(err) != fault.NotFound {
			t.Errorf("in another room: %v", err)
		}
	})
}

// serves starts the agent's server. The waiter sees what "Server ends first" sends.
func serves(ctx context.Context, t *testing.T, a *agent) (said *waiter) {
	t.Helper()
	serving, said := newWaiter("serving"), newWaiter(fmt.Sprintf("got %d <nil>", 1<<20))
	ctx, cancel := context.WithCancel(ctx)
	in, feed := io.Pipe()
	p, err := a.room().Exec(ctx, engine.Command{
		Args:  []string{"./intruder", "serve", fmt.Sprintf("127.0.0.1:%d", port4), fmt.Sprintf("[::1]:%d", port6)},
		Stdin: in, Stdout: io.MultiWriter(serving, said),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		feed.Close()
		_, _ = p.Wait()
	})
	serving.wait(ctx, t)
	return said
}

// connect connects to the agent's server and says what it wants.
func (a *agent) connect(ctx context.Context, t *testing.T, kind string) engine.Connection {
	t.Helper()
	c, err := a.suite.Client.ConnectPort(ctx, a.User, port4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, kind); err != nil {
		t.Fatal(err)
	}
	return c
}

// echoes sends a text to the agent's server, which sends it back and says who it came from.
func echoes(ctx context.Context, a *agent, port config.Port, text []byte, from string) error {
	c, err := a.suite.Client.ConnectPort(ctx, a.User, port)
	if err != nil {
		return err
	}
	defer c.Close()
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write(append([]byte("e"), text...))
		if err == nil {
			err = c.CloseWrite()
		}
		sent <- err
	}()
	got, err := io.ReadAll(c)
	if err == nil {
		err = <-sent
	}
	if err == nil && string(got) != string(text)+"end of "+from {
		err = fmt.Errorf("of %d bytes %d came back, with %q", len(text), len(got), got[max(0, len(got)-32):])
	}
	return err
}

// unread sends more than the buffers hold to a server that reads nothing. The context ends that.
func unread(ctx context.Context, t *testing.T, a *agent) {
	ends, end := context.WithCancel(ctx)
	defer end()
	c := a.connect(ends, t, "s")
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write(make([]byte, 64<<20))
		sent <- err
	}()
	if err := echoes(ctx, a, port4, []byte("beside it"), "127.0.0.1"); err != nil {
		t.Error(err)
	}
	select {
	case err := <-sent:
		t.Errorf("all was sent, %v", err)
	default:
	}
	end()
	if err := <-sent; err == nil {
		t.Error("all was sent")
	}
}

// tooManyPorts checks that bob's connections leave some for alice, and can be made again.
func tooManyPorts(ctx context.Context, t *testing.T, alice, bob *agent) {
	var all []engine.Connection
	defer func() {
		for _, c := range all {
			c.Close()
		}
	}()
	for {
		c, err := bob.suite.Client.ConnectPort(ctx, bob.User, port4)
		if err != nil {
			if fault.KindOf(err) != fault.Rejected || fault.AdviceOf(err) == "" {
				t.Errorf("%v (%s)", err, fault.AdviceOf(err))
			}
			break
		}
		if all = append(all, c); len(all) == protocol.MaxConnections {
			t.Fatal("bob got all")
		}
	}
	if _, err := alice.suite.Client.ConnectPort(ctx, alice.User, nobodys); fault.KindOf(err) != fault.NotFound {
		t.Errorf("beside %d of bob: %v", len(all), err)
	}
	all[0].Close()
	eventually(ctx, t, func() bool { return echoes(ctx, bob, port4, nil, "127.0.0.1") == nil })
}
