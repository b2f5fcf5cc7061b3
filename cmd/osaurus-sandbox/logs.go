package main

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/supervisor/doctor"
)

func newLogs() *cobra.Command {
	var follow bool
	var since, source, agent string
	return command("logs", func(ctx context.Context, c *call) error {
		from, err := parseSince(since)
		if err != nil {
			return err
		}
		err = c.reach(ctx)
		if fault.KindOf(err) == fault.Unavailable && agent == "" && !follow {
			return logsWithoutDaemon(c, source, from.AsTime())
		}
		if err != nil {
			return err
		}
		request := &controlpb.LogsRequest{Since: from, Follow: follow, Source: source, Agent: agent}
		return replyEach(c, control.Messages(c.Logs(ctx, request)), printLog)
	},
		withFlag(&follow, "follow, f", "keep printing new lines"),
		withFlag(&since, "since", "print only newer lines: a duration (10m) or a time (2006-01-02T15:04:05Z)"),
		withFlag(&source, "source", "print only this log: daemon, or console for the guest's console"),
		withFlag(&agent, "agent", "print what this agent's programs have logged instead"))
}

// printLog prints a line of a log.
func printLog(w io.Writer, l *controlpb.LogsResponse) error {
	switch {
	case l.Level != "":
		return writef(w, "%s  %s  %-6s  %s\n", l.Source, when(l.Time), l.Level, l.Text)
	case l.Time != nil:
		return writef(w, "%-7s  %s  %s\n", l.Source, when(l.Time), l.Text)
	}
	return writef(w, "%-7s  %s\n", l.Source, l.Text)
}

// logsWithoutDaemon prints the logs of past daemons, which explain why none starts.
func logsWithoutDaemon(c *call, source string, since time.Time) error {
	home, err := config.FindHome()
	if err != nil {
		return err
	}
	writef(c.err, "No daemon answers. These are the logs in %s:\n", home.Logs())
	for _, path := range doctor.CrashReports() {
		writef(c.err, "Crash report: %s\n", path)
	}
	show := printLog
	if c.json {
		show = printJSONLine
	}
	return control.LeftLogs(home, source, since, func(l *controlpb.LogsResponse) error { return show(c.out, l) })
}

// parseSince parses a duration or a time. Empty means no limit.
func parseSince(text string) (*timestamppb.Timestamp, error) {
	if text == "" {
		return nil, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return timestamppb.New(time.Now().Add(-d)), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return timestamppb.New(t), nil
		}
	}
	return nil, fault.Newf(fault.InvalidArgs, "read --since", text, "neither a duration nor a time").
		Advise("Write a duration such as 90s, 10m or 24h, or a time such as 2006-01-02 15:04:05.")
}

func newEvents() *cobra.Command {
	var follow bool
	var after int64
	var agent string
	var agents bool
	var topics []string
	return command("events", func(ctx context.Context, c *call) error {
		if err := c.reach(ctx); err != nil {
			return err
		}
		if agents || agent != "" || len(topics) > 0 {
			request := &controlpb.ReadTopicsRequest{Agent: agent, After: after, Follow: follow, Topics: topics}
			return replyEach(c, control.Messages(c.Topics.Read(ctx, request)), printTopic)
		}
		request := &controlpb.EventsRequest{After: after, Follow: follow}
		return replyEach(c, control.Messages(c.Events(ctx, request)), printEvent)
	},
		withFlag(&follow, "follow, f", "keep printing new events"),
		withFlag(&after, "after", "print only events with greater numbers"),
		withFlag(&agent, "agent", "print the events that this agent's programs get"),
		withFlag(&agents, "agents", "print the events of all agents' programs"),
		func(cmd *cobra.Command) {
			cmd.Flags().StringSliceVar(&topics, "topic", nil, "print only events of this topic; a * at its end stands for any text")
		},
		exclusive("agent agents"))
}

func printEvent(w io.Writer, e *controlpb.EventsResponse) error {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		parts = append(parts, name+"="+e.Fields[name])
	}
	return writef(w, "%6d  %s  %-18s %s  (%s)\n", e.Seq, when(e.Time), e.Kind, strings.Join(parts, " "), e.Cause)
}

// printTopic prints an event of an agent's program.
func printTopic(w io.Writer, e *controlpb.ReadTopicsResponse) error {
	if e.GapTo != 0 {
		return writef(w, "        some events from %d to %d are no longer kept\n", e.GapFrom, e.GapTo)
	}
	return writef(w, "%6d  %s  %-20s %s  (%s)\n", e.Seq, when(e.Time), e.Topic, printable.Clip(e.Payload), e.Source)
}
