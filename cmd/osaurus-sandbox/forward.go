package main

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/net/netutil"
	"golang.org/x/time/rate"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

const (
	// maxForwarded bounds the concurrent connections to one port; more wait. Browsers open six per
	// address, and the guest allows an agent 80 in all.
	maxForwarded = 32
	// complainEvery limits error messages: web pages retry again and again.
	complainEvery = time.Second
)

func newForward() *cobra.Command {
	return command("forward AGENT [LOCAL:]PORT...", func(ctx context.Context, c *call) error {
		f := forwarder{call: c, agent: c.args[0], complaints: rate.Sometimes{Interval: complainEvery}}
		defer f.close()
		for _, text := range c.args[1:] {
			if err := f.listen(ctx, text); err != nil {
				return err
			}
		}
		if err := c.connect(ctx); err != nil {
			return err
		}
		return f.run(ctx)
	})
}

// forwarder forwards ports of this computer to an agent's room.
type forwarder struct {
	*call
	agent        string
	portForwards []portForward
	complaints   rate.Sometimes
}

// portForward is a listening port and the agent's port that it forwards to.
type portForward struct {
	net.Listener
	port config.Port
}

// listen opens the port in PORT or LOCAL:PORT.
func (f *forwarder) listen(ctx context.Context, text string) error {
	const op = "open port"
	local, there, two := strings.Cut(text, ":")
	if !two {
		there = local
	}
	port, err := config.ParsePort(there)
	if err != nil {
		return err
	}
	if local != "0" || !two {
		if _, err := config.ParsePort(local); err != nil {
			return err
		}
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", local))
	if err != nil {
		return fault.New(fault.Rejected, op, local, err).Advise(fmt.Sprintf("Choose another port, or let it be chosen: osaurus-sandbox forward %s 0:%s", f.agent, there))
	}
	f.portForwards = append(f.portForwards, portForward{netutil.LimitListener(l, maxForwarded), port})
	return nil
}

func (f *forwarder) close() {
	for _, d := range f.portForwards {
		_ = d.Close()
	}
}

// run forwards until the context ends or the daemon closes the connection.
func (f *forwarder) run(ctx context.Context) error {
	var ports []config.Port
	for _, d := range f.portForwards {
		ports = append(ports, d.port)
	}
	ctx, end := context.WithCancel(ctx) // ends before the connection to the daemon does, so that its end is not reported as an error
	defer end()
	stop := showStart(ctx, f.call)
	way, err := f.Forward(ctx, f.agent, ports)
	stop()
	if err != nil {
		return err
	}
	defer way.Close()
	for _, d := range f.portForwards {
		if err := f.say(d); err != nil {
			return err
		}
	}
	failed := make(chan error, len(f.portForwards))
	var work sync.WaitGroup
	defer work.Wait()
	defer f.close()
	defer end()
	for _, d := range f.portForwards {
		work.Go(func() {
			for {
				conn, err := d.Accept()
				if err != nil {
					failed <- err
					return
				}
				work.Go(func() { f.complain(ctx, way.Connect(ctx, d.port, conn)) })
			}
		})
	}
	select {
	case <-way.Done():
		if ctx.Err() != nil {
			return nil // Ctrl-C is the normal end
		}
		return way.Err()
	case err := <-failed:
		return err
	}
}

// say prints where a portForward leads.
func (f *forwarder) say(d portForward) error {
	if f.json {
		return printJSONLine(f.out, struct {
			Address string      `json:"address"`
			Agent   string      `json:"agent"`
			Port    config.Port `json:"port"` // in the room
		}{d.Addr().String(), f.agent, d.port})
	}
	return writef(f.out, "http://%s is port %v of %s\n", d.Addr(), d.port, f.agent)
}

// complain prints an error of a connection, at most once per complainEvery.
func (f *forwarder) complain(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	f.complaints.Do(func() {
		writef(f.err, failurePrefix+"%v\n", err)
		if advice := fault.AdviceOf(err); advice != "" {
			writef(f.err, advicePrefix+"%s\n", advice)
		}
	})
}
