package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/internal/fault"
)

const (
	// maxForwarded bounds the connections of one forward at a time; more wait until one has
	// ended. Two that are full have all the connections that the daemon lets an agent have. A
	// browser has six for each address.
	maxForwarded = 32
	// complainEvery is how often it is said that connections fail: a page tries again and again.
	complainEvery = time.Second
)

func newForward(c console) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:   "forward AGENT [LOCAL:]PORT...",
		Short: "Reach a server that an agent runs, from this computer",
		Long: `Opens ports of this computer that lead to ports in an agent's room, until you press Ctrl-C: if the agent runs a web server, you can
see it in your browser. Each port has the same number here, unless you write LOCAL:PORT; 0 as LOCAL takes any free port. The server
may listen on the room's loopback address only, and may be started later, or restarted.

Up to 64 ports can be opened, with up to 32 connections at a time: more wait. Any TCP protocol works. The guest is started if it
does not run, and not stopped as idle meanwhile.

The ports are opened on 127.0.0.1: every program of every user of this computer can connect. Do not trust what the agent's server
sends. Browsers do not keep the cookies of different ports apart: the agent's pages get, and can change, the cookies of everything
that you use on 127.0.0.1. If that matters, use another browser profile or a private window.`,
		Example: `  osaurus-sandbox forward alice 8080                 http://127.0.0.1:8080 is port 8080 of alice
  osaurus-sandbox forward alice 3000 9000:8080       two at once, one under another number
  osaurus-sandbox forward alice 0:5432 --json        a program reads which port it is`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f := forwarder{console: c, agent: args[0], slots: make(chan struct{}, maxForwarded)}
			defer f.close()
			for _, text := range args[1:] {
				if err := f.listen(cmd.Context(), text); err != nil {
					return err
				}
			}
			client, err := need(cmd.Context())
			if err != nil {
				return err
			}
			defer client.Close()
			return f.run(cmd.Context(), client, wantsJSON(cmd))
		},
	})
}

// forwarder has ports of this computer lead to those of an agent.
type forwarder struct {
	console
	agent string
	doors []door
	slots chan struct{} // of connections

	mu         sync.Mutex
	complained time.Time
}

// door is a port of this computer, and the port of the agent that it leads to.
type door struct {
	net.Listener
	port config.Port
}

// listen opens PORT, or LOCAL:PORT.
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
		other := "0:" + there
		if n, _ := strconv.Atoi(local); n >= 1024 && n < 65535 {
			other = fmt.Sprintf("%d:%s", n+1, there)
		}
		kind := fault.KindOf(err)
		if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EACCES) {
			kind = fault.Rejected
		}
		return fault.New(kind, op, local, err).Advise(fmt.Sprintf("Open another one for it: osaurus-sandbox forward %s %s", f.agent, other))
	}
	f.doors = append(f.doors, door{l, port})
	return nil
}

func (f *forwarder) close() {
	for _, d := range f.doors {
		_ = d.Close()
	}
}

// run forwards until the context ends, or the daemon.
func (f *forwarder) run(ctx context.Context, client *control.Client, asJSON bool) error {
	var ports []config.Port
	for _, d := range f.doors {
		ports = append(ports, d.port)
	}
	ctx, end := context.WithCancel(ctx) // the way's is below it, so that who sees the way end by it sees it ended
	defer end()
	stop := showStart(ctx, f.console, client)
	way, err := client.Forward(ctx, f.agent, ports)
	stop()
	if err != nil {
		return err
	}
	defer way.Close()
	for _, d := range f.doors {
		if err := f.say(d, asJSON); err != nil {
			return err
		}
	}
	failed := make(chan error, len(f.doors))
	var work sync.WaitGroup
	defer work.Wait()
	defer f.close()
	defer end()
	for _, d := range f.doors {
		work.Go(func() {
			for {
				conn, err := d.Accept()
				if err != nil {
					failed <- err
					return
				}
				select {
				case f.slots <- struct{}{}:
				case <-ctx.Done():
					_ = conn.Close()
					return
				}
				work.Go(func() {
					defer func() { <-f.slots }()
					f.complain(ctx, way.Connect(ctx, d.port, conn))
				})
			}
		})
	}
	select {
	case <-way.Done():
		if ctx.Err() != nil {
			return nil // which is how it is ended
		}
		return way.Err()
	case err := <-failed:
		return err
	}
}

// say says what a door leads to.
func (f *forwarder) say(d door, asJSON bool) error {
	if asJSON {
		return printJSONLine(f.out, struct {
			Address string      `json:"address"`
			Agent   string      `json:"agent"`
			Port    config.Port `json:"port"` // of the agent
		}{d.Addr().String(), f.agent, d.port})
	}
	return writef(f.out, "http://%s is port %v of %s\n", d.Addr(), d.port, f.agent)
}

// complain says why a connection could not be carried, unless it was just said.
func (f *forwarder) complain(ctx context.Context, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil || ctx.Err() != nil || time.Since(f.complained) < complainEvery {
		return
	}
	f.complained = time.Now()
	writef(f.err, failurePrefix+"%v\n", err)
	if advice := fault.AdviceOf(err); advice != "" {
		writef(f.err, advicePrefix+"%s\n", advice)
	}
}
