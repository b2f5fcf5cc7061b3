package main

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/printable"
)

func newAuditList() *cobra.Command {
	r := &controlpb.ListAuditRequest{}
	var since string
	return daemonCommand("list", func(ctx context.Context, c *call) (err error) {
		if r.Since, err = parseSince(since); err != nil {
			return err
		}
		return replyEach(c, control.Messages(c.ListAudit(ctx, r)), printEntry)
	},
		withFlag(&since, "since", "print only newer entries: a duration (24h) or a time"),
		withFlag(&r.Agent, "agent", "print only entries about this agent"),
		withFlag(&r.Limit, "limit", "print at most this many entries"))
}

func printEntry(w io.Writer, e *controlpb.ListAuditResponse) error {
	text := strings.TrimSpace(e.Subject + " " + e.Detail)
	if e.Agent != "" {
		text = strings.TrimSpace(e.Agent + ": " + text)
	}
	return writef(w, "%6d  %s  uid %d  %-18s %-18s %-10s %s\n", e.Seq, when(e.Time), e.Uid, e.Client, e.Action, e.Outcome, printable.Clip(text))
}

func newAuditVerify() *cobra.Command {
	return daemonCommand("verify", func(ctx context.Context, c *call) error {
		proof, err := c.VerifyAudit(ctx, &controlpb.VerifyAuditRequest{})
		return reply(c, proof, err, func(w io.Writer, p *controlpb.VerifyAuditResponse) error {
			return writef(w, "whole: %s\nlast hash: %s\n", plural(int(p.Records), "entry"), p.Head)
		})
	})
}
