package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
)

const (
	// minTick is the shortest interval. Each measurement costs the guest some work.
	minTick = 200 * time.Millisecond
	// maxFirst bounds the wait for the first table, since rates need two measurements.
	maxFirst = time.Second
)

func newTop() *cobra.Command {
	every := 2 * time.Second
	var count int
	return daemonCommand("top [AGENT]", func(ctx context.Context, c *call) error {
		show := plainTop
		if c.json {
			show = func(w io.Writer, _, now *controlpb.AgentUsageResponse) error { return printJSONLine(w, now) }
		} else if rows := terminalWidth(c.out); rows > 0 {
			const enter, leave = "\x1b[?1049h", "\x1b[?1049l" // the terminal's other screen
			fmt.Fprint(c.out, enter)
			defer fmt.Fprint(c.out, leave)
			show = drawTop
		}
		return watchTop(ctx, c.out, c.Client, c.arg(0), max(every, minTick), count, show)
	},
		withFlag(&every, "every", "the time between two measurements"),
		withFlag(&count, "count", "stop after this many measurements (default never)"))
}

// watchTop prints usage repeatedly. Ctrl-C is the normal end.
func watchTop(ctx context.Context, w io.Writer, client *control.Client, agent string, every time.Duration, count int, show func(w io.Writer, before, now *controlpb.AgentUsageResponse) error) error {
	var before *controlpb.AgentUsageResponse
	for looks := 0; ; {
		now, err := client.Agents.Usage(ctx, &controlpb.AgentUsageRequest{Agent: agent})
		begins := before == nil && now.GetRunning() // rates need two measurements
		if err == nil && !begins {
			err = show(w, before, now)
			looks++
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil || count > 0 && looks == count {
			return err
		}
		before = now
		pause := every
		if looks == 0 {
			pause = min(every, maxFirst)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
}

// usage is an agent's usage, with rates since an earlier measurement.
type usage struct {
	*controlpb.AgentUsage
	cpu, received, sent float64 // a second
}

// usages returns the usage of agents, those with the most processor time first.
func usages(before, now *controlpb.AgentUsageResponse) []usage {
	earlier := map[string]*controlpb.AgentUsage{}
	for _, u := range before.GetAgents() {
		earlier[u.Agent] = u
	}
	seconds := now.Time.AsTime().Sub(before.GetTime().AsTime()).Seconds()
	var list []usage
	for _, u := range now.Agents {
		e := earlier[u.Agent]
		if e == nil || !u.Since.AsTime().Equal(e.Since.AsTime()) {
			e = &controlpb.AgentUsage{} // the room is new, and so are its counters
		}
		rate := func(before, now float64) float64 { return max(0, now-before) / seconds }
		list = append(list, usage{
			u, rate(e.Cpu.AsDuration().Seconds(), u.Cpu.AsDuration().Seconds()),
			rate(float64(e.Received), float64(u.Received)), rate(float64(e.Sent), float64(u.Sent)),
		})
	}
	slices.SortStableFunc(list, func(x, y usage) int { return cmp.Compare(y.cpu, x.cpu) })
	return list
}

// plainTop prints a table without clearing the last one.
func plainTop(w io.Writer, before, now *controlpb.AgentUsageResponse) error {
	_, err := fmt.Fprintln(w, topText(before, now))
	return err
}

// drawTop draws the table over the last one.
func drawTop(w io.Writer, before, now *controlpb.AgentUsageResponse) error {
	const home, clearLine, clearRest = "\x1b[H", "\x1b[K", "\x1b[J"
	_, err := io.WriteString(w, home+strings.ReplaceAll(topText(before, now), "\n", clearLine+"\n")+clearRest)
	return err
}

func topText(before, now *controlpb.AgentUsageResponse) string {
	var b bytes.Buffer
	writef(&b, "%s  ", now.Time.AsTime().Local().Format(time.TimeOnly))
	if !now.Running {
		writef(&b, "no guest runs\n")
		return b.String()
	}
	writef(&b, "%s, %s memory\n", plural(int(now.Cpus), "processor"), bytesText(now.Memory))
	_ = printTable(&b, "AGENT\tCPU\tMEMORY\tPROCESSES\tDISK\tRECEIVED\tSENT", usages(before, now), func(u usage) []any { // a buffer does not fail
		return []any{u.Agent, fmt.Sprintf("%.0f%%", 100*u.cpu), bytesText(u.Memory) + " of " + bytesText(u.MemoryLimit),
			fmt.Sprintf("%d of %d", u.Processes, u.ProcessesLimit), bytesText(u.Disk), bytesText(uint64(u.received)) + "/s", bytesText(uint64(u.sent)) + "/s"}
	})
	return b.String()
}

func newPs() *cobra.Command {
	return daemonCommand("ps [AGENT]", func(ctx context.Context, c *call) error {
		r, err := c.Agents.Processes(ctx, &controlpb.AgentProcessesRequest{Agent: c.arg(0)})
		return reply(c, r, err, func(w io.Writer, r *controlpb.AgentProcessesResponse) error {
			if r.Truncated {
				defer writef(c.err, "There are more.\n")
			}
			return printTable(w, "AGENT\tPID\tSTATE\tCPU\tMEMORY\tSTARTED\tCOMMAND", r.Processes, func(p *controlpb.AgentProcess) []any {
				return []any{p.Agent, p.Pid, p.State, p.Cpu.AsDuration().Round(10 * time.Millisecond), bytesText(p.Memory), p.Started.AsTime().Local().Format(time.TimeOnly), p.Command}
			})
		})
	})
}

// bytesText formats a size for people: "1.5M".
func bytesText(n uint64) string {
	const step = 1024
	value, unit := float64(n), 0
	for value >= step && unit < len("BKMGT")-1 {
		value, unit = value/step, unit+1
	}
	if unit == 0 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%.1f%c", value, "BKMGT"[unit])
}
