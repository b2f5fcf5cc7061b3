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
	return daemonCommand("top [AGENT]", `Show what agents use, as it changes

Shows the processors (100% is one), memory, processes, disk and network that agents use. A terminal shows changes until you press
Ctrl-C. Elsewhere it prints a table each time, or with --json a line. It does not start the guest.`,
		`  osaurus-sandbox top
  osaurus-sandbox top alice --every 10s
  osaurus-sandbox top --count 1 --json`, func(ctx context.Context, c *call) error {
			show := plainTop
			if c.json {
				show = printJSONLine
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
func watchTop(ctx context.Context, w io.Writer, client *control.Client, agent string, every time.Duration, count int, show func(io.Writer, tick) error) error {
	var before *controlpb.AgentUsageResponse
	for looks := 0; ; {
		now, err := client.Agents.Usage(ctx, &controlpb.AgentUsageRequest{Agent: agent})
		begins := before == nil && now.GetRunning() // rates need two measurements
		if err == nil && !begins {
			err = show(w, newTick(before, now))
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

// tick is the usage at one time.
type tick struct {
	Time    time.Time   `json:"time"`
	Running bool        `json:"running"` // a guest runs
	CPUs    uint32      `json:"cpus"`
	Memory  uint64      `json:"memory"` // bytes
	Agents  []agentTick `json:"agents"`
}

// agentTick is an agent's usage. Rates cover the time since the last tick.
type agentTick struct {
	Agent          string  `json:"agent"`
	CPUPercent     float64 `json:"cpu_percent"` // of one processor
	CPUSeconds     float64 `json:"cpu_seconds"`
	Memory         uint64  `json:"memory"`
	MemoryLimit    uint64  `json:"memory_limit"`
	Processes      uint32  `json:"processes"`
	ProcessesLimit uint32  `json:"processes_limit"`
	Disk           uint64  `json:"disk"`
	ReceivedRate   float64 `json:"received_per_second"`
	SentRate       float64 `json:"sent_per_second"`
	OOMKills       uint64  `json:"oom_kills"`
}

func newTick(before, now *controlpb.AgentUsageResponse) tick {
	t := tick{Time: now.Time.AsTime(), Running: now.Running, CPUs: now.Cpus, Memory: now.Memory, Agents: []agentTick{}}
	earlier := map[string]*controlpb.AgentUsage{}
	for _, u := range before.GetAgents() {
		earlier[u.Agent] = u
	}
	seconds := now.Time.AsTime().Sub(before.GetTime().AsTime()).Seconds()
	for _, u := range now.Agents {
		a := agentTick{
			Agent: u.Agent, CPUSeconds: u.Cpu.AsDuration().Seconds(), Memory: u.Memory, MemoryLimit: u.MemoryLimit,
			Processes: u.Processes, ProcessesLimit: u.ProcessesLimit, Disk: u.Disk, OOMKills: u.OomKills,
		}
		e := earlier[u.Agent]
		if e == nil || !u.Since.AsTime().Equal(e.Since.AsTime()) {
			e = &controlpb.AgentUsage{} // the room is new, and so are its counters
		}
		if seconds > 0 {
			a.CPUPercent = max(0, a.CPUSeconds-e.Cpu.AsDuration().Seconds()) / seconds * 100
			a.ReceivedRate, a.SentRate = rate(e.Received, u.Received, seconds), rate(e.Sent, u.Sent, seconds)
		}
		t.Agents = append(t.Agents, a)
	}
	slices.SortStableFunc(t.Agents, func(x, y agentTick) int { return cmp.Compare(y.CPUPercent, x.CPUPercent) })
	return t
}

func rate(before, now uint64, seconds float64) float64 {
	if now < before {
		return 0
	}
	return float64(now-before) / seconds
}

// plainTop prints a table without clearing the last one.
func plainTop(w io.Writer, t tick) error {
	_, err := fmt.Fprintln(w, topText(t))
	return err
}

// drawTop draws the table over the last one.
func drawTop(w io.Writer, t tick) error {
	const home, clearLine, clearRest = "\x1b[H", "\x1b[K", "\x1b[J"
	_, err := io.WriteString(w, home+strings.ReplaceAll(topText(t), "\n", clearLine+"\n")+clearRest)
	return err
}

func topText(t tick) string {
	var b bytes.Buffer
	if !t.Running {
		writef(&b, "%s  no guest runs\n", t.Time.Local().Format(time.TimeOnly))
		return b.String()
	}
	writef(&b, "%s  %s, %s memory\n", t.Time.Local().Format(time.TimeOnly), plural(int(t.CPUs), "processor"), bytesText(t.Memory))
	_ = printTable(&b, "AGENT\tCPU\tMEMORY\tPROCESSES\tDISK\tRECEIVED\tSENT", t.Agents, func(a agentTick) []any { // a buffer does not fail
		return []any{a.Agent, fmt.Sprintf("%.0f%%", a.CPUPercent), bytesText(a.Memory) + " of " + bytesText(a.MemoryLimit),
			fmt.Sprintf("%d of %d", a.Processes, a.ProcessesLimit), bytesText(a.Disk), bytesText(uint64(a.ReceivedRate)) + "/s", bytesText(uint64(a.SentRate)) + "/s"}
	})
	return b.String()
}

func newPs() *cobra.Command {
	return daemonCommand("ps [AGENT]", `List the processes of agents

Lists the processes of an agent, or of all. It does not start the guest: without one there are no processes.`,
		`  osaurus-sandbox ps
  osaurus-sandbox ps alice`, func(ctx context.Context, c *call) error {
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
